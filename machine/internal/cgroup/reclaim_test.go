package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

const swapsHead = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

func TestOnlySwapThatIsAllCompressedMemoryTakesFrozenMachines(t *testing.T) {
	for _, c := range []struct {
		swaps, zswap string
		want         bool
	}{
		{swapsHead, "Y\n", false},
		{swapsHead + "/dev/zram0  partition 4194300 0 100\n", "", true},
		{swapsHead + "/dev/zram0  partition 4194300 0 100\n/dev/sda2 partition 4194300 0 -2\n", "N\n", false},
		{swapsHead + "/dev/sda2 partition 4194300 0 -2\n", "N\n", false},
		{swapsHead + "/swapfile file 4194300 0 -2\n", "Y\n", true},
	} {
		if got := isCompressed(c.swaps, c.zswap); got != c.want {
			t.Errorf("isCompressed(%q, %q) = %v", c.swaps, c.zswap, got)
		}
	}
}

func TestAFrozenGroupOffersItsMemoryOneThatRunsDoesNotAndNeitherKeepsSwap(t *testing.T) {
	for events, want := range map[string]string{"populated 1\nfrozen 1\n": "67108864", "populated 1\nfrozen 0\n": ""} {
		root := t.TempDir()
		v := &versionTwo{root: root, needed: neededV2}
		must(t, os.Mkdir(filepath.Join(root, "g"), 0o755))
		for name, text := range map[string]string{"cgroup.events": events, "memory.current": "100", "memory.swap.max": "0", "memory.reclaim": ""} {
			must(t, os.WriteFile(v.file("g", name), []byte(text), 0o644))
		}
		must(t, v.offerMemory("g"))
		for name, want := range map[string]string{"memory.swap.max": "0ax", "memory.reclaim": want} {
			if got, err := os.ReadFile(v.file("g", name)); err != nil || string(got) != want {
				t.Errorf("%s is %q, %v: want %q", name, got, err, want)
			}
		}
	}
}

package guest

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/berth-dev/berth/machine/internal/agent/spawn"
)

func TestTheGuardNeedNotWaitForAnAdoption(t *testing.T) {
	init := exec.Command("sleep", "1000")
	if err := init.Start(); err != nil {
		t.Fatal(err)
	}
	in := &adoptedSpawner{spawner: &spawn.Spawner{Guest: init.Process.Pid}}
	g := &Guest{current: in, endable: in}
	g.mu.Lock() // held as during an adoption, and never unlocked, so that retire waits
	if own := g.Own(); !slices.Equal(own, []int{os.Getpid(), init.Process.Pid}) {
		t.Fatal(own)
	}
	g.EndAll("test")
	if err := init.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatal(err)
	}
}

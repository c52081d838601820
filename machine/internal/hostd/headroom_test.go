package hostd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestHeadroomIsAnEqualPartOfWhatIsLeft(t *testing.T) {
	c := Config{MemoryHeadroomMiB: 768, MemoryHeadroomMinMiB: 192, MachinesMemoryMiB: 20000, Slots: SlotsConfig{Count: 3}, Shells: ShellsConfig{Count: 2}}
	for _, one := range []struct{ machines, told, want int }{{0, 0, 768}, {1, 1024, 768}, {11, 11 * 1024, 736}, {16, 16 * 1024, 192}, {20, 20 * 1024, 192}, {2, 18000, 768}, {2, 19000, 320}} {
		if got := c.headroomMiB(one.machines, one.told); got != one.want {
			t.Errorf("%d machines of %d MiB have %d MiB each, not %d", one.machines, one.told, got, one.want)
		}
		if counted := one.told + one.machines*192 + 5*waitingMiB; counted <= 20000 && one.told+one.machines*c.headroomMiB(one.machines, one.told)+5*waitingMiB > 20000 {
			t.Errorf("%d machines of %d MiB may use more than there is", one.machines, one.told)
		}
	}
	c.MachinesMemoryMiB = 0
	if got := c.headroomMiB(50, 50*1024); got != 768 {
		t.Errorf("without a bound each has %d MiB", got)
	}
}

// One large process makes the quiet neighbour a likely victim of the kernel.
func TestGuestsThatTakeAllTheirHeadroomEndAloneAndTheRestLives(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) {
		config["memory_headroom_mib"], config["memory_headroom_min_mib"], config["machines_memory_mib"] = 512, 64, 1344
		config["capacity"] = map[string]any{"cpu_millis": 4000, "memory_mib": 1216}
	})
	var quiet wire.Machine
	request := d.startRequest(newID(), 1)
	request.Resources.MemoryMiB = 512
	d.ok(d.call("POST", "/machines/start", request, &quiet))
	limit := func(m wire.Machine) int {
		text, err := os.ReadFile(d.controlFile(m, "memory.limit_in_bytes", "memory.max"))
		must(t, err)
		bytes, err := strconv.Atoi(strings.TrimSpace(string(text)))
		must(t, err)
		return bytes >> 20
	}
	if got := limit(quiet); got != 512+512 {
		t.Errorf("alone, the machine may use %d MiB", got)
	}
	d.begin(quiet, "counter", counter)
	d.begin(quiet, "holder", "exec python3 -c 'b = bytearray(370 << 20); open(\"/tmp/held\", \"w\"); import time; time.sleep(1000)'")
	d.run(quiet, "until [ -e /tmp/held ]; do sleep 0.1; done")
	hungry := []wire.Machine{d.startMachine(newID(), 1), d.startMachine(newID(), 1)}
	d.refused(d.call("POST", "/machines/start", d.startRequest(newID(), 1), nil), "no_capacity")
	if got := limit(quiet); got != 512+64 {
		t.Errorf("one of three, the machine may use %d MiB", got)
	}
	at := d.counts(quiet, 0)
	// The processes use the sandbox's memory, which is not the guest's. None grows large, so the agent ends none.
	for _, m := range hungry {
		d.begin(m, "hungry", "ulimit -u unlimited; while :; do sleep 1000 & done")
	}
	for seen := range hungry {
		if event := d.nextEvent(int64(seen)); event.Owner() == quiet.Owner() || event.Reason != "out_of_memory" {
			t.Fatalf("%+v", event)
		}
	}
	d.counts(quiet, at)
	if record := d.session(quiet, "holder"); record.State != "running" {
		t.Errorf("the quiet one's process is %+v", record)
	}
	all, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(d.controlFile(quiet, "memory.limit_in_bytes", "memory.max"))), "memory.max_usage_in_bytes"))
	if err == nil && len(all) > 0 {
		if most, _ := strconv.Atoi(strings.TrimSpace(string(all))); most>>20 >= 1344 {
			t.Errorf("all machines together reached %d MiB, their bound", most>>20)
		}
	}
}

func TestEveryProcessOfAMachineIsOfferedBeforeTheService(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.run(m, "sh -c 'sleep 0 & wait'")
	pids, err := os.ReadFile(filepath.Join(filepath.Dir(m.FreezerFile), "cgroup.procs"))
	must(t, err)
	for _, pid := range strings.Fields(string(pids)) {
		score, err := os.ReadFile("/proc/" + pid + "/oom_score_adj")
		if err == nil && strings.TrimSpace(string(score)) != "500" {
			t.Errorf("process %s has %s", pid, score)
		}
	}
	if len(strings.Fields(string(pids))) < 3 {
		t.Errorf("the machine has the processes %q", pids)
	}
	d.stop(m)
}

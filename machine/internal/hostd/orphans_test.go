package hostd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/pool"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) leftoversOf() wire.Leftovers {
	d.t.Helper()
	var answer wire.Leftovers
	d.ok(d.call("GET", "/leftovers", nil, &answer))
	return answer
}

func (d *daemon) inHostd(command ...string) {
	d.t.Helper()
	enter := append([]string{"--target", itoa(d.process.Process.Pid), "--mount"}, command...)
	output, err := exec.Command("nsenter", enter...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v: %v: %s", command, err, output)
	}
}

func TestWhatBelongsToNothingIsReportedAndRemovedWhileMachinesRunOn(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) { config["sweep_seconds"] = 8 }) // long enough to list all orphans before one is removed
	m := d.startMachine(newID(), 1)
	d.ok(d.call("POST", "/machines/connect", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
	// hostd registers slots and shells only when they are made.
	eventually(t, "a slot and a shell are ready", func() bool { i := d.inventory(); return i.Slots == 1 && i.Shells == 1 })
	if found := d.leftoversOf().Found; len(found) != 0 {
		t.Fatalf("strays before there are any: %v", found)
	}
	instance := d.config["instance"].(string)
	router := []string{"nsenter", "--net=" + d.dir + "/run/net/netns/router"}

	slot := d.dir + "/data/slots/0badc0"
	must(t, os.MkdirAll(slot+"/root", 0o700))
	d.inHostd("mount", "-t", "tmpfs", "tmpfs", slot+"/root")
	groups, err := filepath.Glob("/sys/fs/cgroup/*/berth-" + instance + "/machines")
	must(t, err)
	if unified, _ := filepath.Glob("/sys/fs/cgroup/berth-" + instance + "/machines"); len(unified) > 0 {
		groups = unified
	}
	for _, group := range groups {
		must(t, os.MkdirAll(group+"/0badc1", 0o755))
	}
	// Number 256 is no machine's: the network has 256 links, from 0.
	d.inHostd(append(router, "ip", "link", "add", "b"+instance+"m256", "type", "veth", "peer", "name", "x"+instance)...)
	d.inHostd("touch", d.dir+"/run/net/netns/m-0badc2")
	d.inHostd("mount", "--bind", "/proc/self/ns/net", d.dir+"/run/net/netns/m-0badc2")
	if _, err := exec.LookPath("nft"); err == nil {
		d.inHostd(append(router, "nft", "add", "element", "ip", "berth_"+instance, "connected", "{ \"b"+instance+"m256\" . 10.9.9.9 }")...)
	}
	image := d.dir + "/data/stray.img"
	must(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	must(t, exec.Command("losetup", "--find", image).Run())
	must(t, exec.Command("ip", "link", "add", "b"+instance+"m257", "type", "veth", "peer", "name", "y"+instance).Run())

	kinds := []string{"slot 0badc0", "slot 0badc1", "link b" + instance + "m256", "host link b" + instance + "m257", "namespace m-0badc2", "loop device"}
	found := d.leftoversOf().Found
	for _, kind := range kinds {
		if !slices.ContainsFunc(found, func(name string) bool { return strings.HasPrefix(name, kind) }) {
			t.Errorf("%s is not among %v", kind, found)
		}
	}
	eventually(t, "all strays are gone", func() bool { return len(d.leftoversOf().Found) == 0 })
	if removed := d.leftoversOf().RemovedTotal; removed < int64(len(kinds)) {
		t.Errorf("%d strays were removed", removed)
	}
	if machine := d.machineOf(m.Owner()); machine == nil || !machine.Connected {
		t.Fatalf("the machine did not survive the sweep: %+v", machine)
	}
	if answer := d.run(m, "echo alive"); !strings.Contains(answer, "alive") {
		t.Errorf("the guest answered %q", answer)
	}
	d.stop(m)
}

func (d *daemon) workspaceGroups() []string {
	d.t.Helper()
	root, err := os.Open(d.seenByHostd("pool"))
	must(d.t, err)
	defer root.Close()
	id, err := pool.FilesystemID(root)
	must(d.t, err)
	groups, err := filepath.Glob("/sys/fs/btrfs/" + id + "/qgroups/1_*")
	must(d.t, err)
	return groups
}

func TestNothingOfDeletedWorkspacesIsLeftAfterTheNextSweep(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) { config["sweep_seconds"] = 1 })
	for range 3 {
		m := d.startMachine(newID(), 1)
		d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(m.Owner(), 1)}, nil))
	}
	old := newID()
	d.ok(d.call("POST", "/subjects/fence", wire.Fenced{Fence: d.fence(old, 1)}, nil))
	fence := filepath.Join(d.dir, "data", "fences", old)
	longAgo := time.Now().Add(-2 * fenceKept)
	must(t, os.Chtimes(fence, longAgo, longAgo))
	must(t, os.MkdirAll(d.seenByHostd("pool", "trash", "grave", "checkpoints"), 0o700)) // as after a deletion that failed half-way
	eventually(t, "the deleted workspaces' quota groups, old fences and graves are gone", func() bool {
		d.inHostd("btrfs", "filesystem", "sync", d.dir+"/pool") // wakes the kernel's cleaner, which has no event to wait for
		graves, err := os.ReadDir(d.seenByHostd("pool", "trash"))
		must(t, err)
		_, err = os.Stat(fence)
		return len(d.workspaceGroups()) == len(d.spares()) && len(graves) == 0 && os.IsNotExist(err) // a spare disk has a quota group
	})
}

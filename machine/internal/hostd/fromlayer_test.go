package hostd

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestALayerIsTheDiskOfOneInstantAndMachinesStartFromItOnAnyEngine(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.startMachine(newID(), 1)
	d.begin(m, "counter", counter)
	at := d.counts(m, 0)
	d.run(m, "echo kept > /home/file; mkdir /home/dir; rm -r /usr/share/doc || true; echo gone > /dev/shm/file")
	layer := wire.CheckpointRequest{Fence: d.fence(m.Owner(), 1), CheckpointID: newID(), Then: "running", DiskOnly: true}
	var info wire.CheckpointInfo
	d.ok(d.call("POST", "/machines/checkpoint", layer, &info))
	if !info.DiskOnly || info.Engine != "" || info.SizeBytes != 0 {
		t.Fatalf("the layer is %+v", info)
	}
	d.run(m, "echo later > /home/file")
	d.counts(m, at)
	d.refused(d.call("POST", "/machines/restore", d.restoreRequest(m.Owner(), layer.CheckpointID, 2), nil), "already_running")

	first := d.inventory().Engine
	d.kill()
	d.config["runsc"], _ = d.otherEngine(first)
	d.start()
	from := d.startRequest(newID(), 1)
	from.FromLayer = &wire.CheckpointName{Subject: m.Subject, CheckpointID: layer.CheckpointID}
	var other wire.Machine
	d.ok(d.call("POST", "/machines/start", from, &other))
	if other.Engine == first {
		t.Fatalf("the machine of the layer runs under %s", other.Engine)
	}
	if text := d.run(other, "cat /home/file; ls -d /home/dir; ls /dev/shm/file /usr/share/doc 2>/dev/null; true"); text != "kept\n/home/dir" {
		t.Fatalf("the machine of the layer has %q", text)
	}
	var refusal wire.AgentError
	must(t, json.Unmarshal(d.guest(other, "GET", "/exec/counter", nil, testns.Patience(patient)), &refusal))
	if refusal.Reason != "session_not_found" {
		t.Fatalf("it knows the commands of where the layer came from: %+v", refusal)
	}
	if text := d.run(m, "cat /home/file"); text != "later" {
		t.Fatalf("the source has %q", text)
	}
	d.stop(m)
	booted := d.restore(m.Owner(), layer.CheckpointID, 2)
	if text := d.run(booted, "cat /home/file; ls /dev/shm/file 2>/dev/null; true"); text != "kept" || booted.Engine != other.Engine {
		t.Fatalf("restored from the layer is %q under %s", text, booted.Engine)
	}
	d.stop(booted)
	memory := newID()
	d.checkpoint(other, memory, "paused")
	from = d.startRequest(newID(), 1)
	from.FromLayer = &wire.CheckpointName{Subject: other.Subject, CheckpointID: memory}
	d.refused(d.call("POST", "/machines/start", from, nil), "checkpoint_incompatible")
	d.deleteWorkspace(m.Owner())
	from = d.startRequest(newID(), 1)
	from.FromLayer = &wire.CheckpointName{Subject: m.Subject, CheckpointID: layer.CheckpointID}
	d.refused(d.call("POST", "/machines/start", from, nil), "not_found")
}

package hostd

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const ownAddress = `python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("203.0.113.1", 9))
print(s.getsockname()[0])'`

// The guest program knowsItself connects to itself through the guest's address and 127.0.0.1, and records what arrives.
const knowsItself = `python3 -c '
import os, socket, threading
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("203.0.113.1", 9))
own = s.getsockname()[0]
def pair(host, port):
    server = socket.create_server((host, port))
    client = socket.create_connection((host, port))
    return server, client, server.accept()[0]
server, mine, _mine = pair(own, 7000)
_local, client, other = pair("127.0.0.1", 7001)
def serve():
    while True:
        server.accept()[0].sendall(b"served")
def wait():
    try:
        mine.recv(1)
    except OSError:
        pass
    open("/home/ended", "w").close()
for each in serve, wait:
    threading.Thread(target=each, daemon=True).start()
os.mkfifo("/home/ask")
while True:
    for line in open("/home/ask"):
        client.sendall(line.encode())
        with open("/home/said", "ab") as said:
            said.write(other.recv(100))
'`

const hearsItself = "test -e /home/ended && echo ended; echo hello > /home/ask; until grep -s hello /home/said; do sleep 0.05; done"

func calls(address string) string {
	return strings.ReplaceAll(`python3 -c 'import socket; print(socket.create_connection(("%", 7000)).recv(10).decode())'`, "%", address)
}

func hostOf(m wire.Machine) string {
	host, _, _ := net.SplitHostPort(m.Address)
	return host
}

func (d *daemon) leave(m wire.Machine) (checkpoint string) {
	d.t.Helper()
	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	eventually(d.t, "the network of the stopped machine is gone", func() bool {
		_, err := os.Lstat(d.seenByHostd("run", "net", "netns", "m-"+m.Slot))
		return os.IsNotExist(err)
	})
	return id
}

func (d *daemon) isAt(what string, m wire.Machine, address string) {
	d.t.Helper()
	if own := d.run(m, ownAddress); hostOf(m) != address || own != address {
		d.t.Errorf("%s: the machine is at %s, its guest takes itself for %s; wanted is %s", what, hostOf(m), own, address)
	}
}

func TestAMachineComesBackToTheAddressThatItsGuestKnows(t *testing.T) {
	d := newDaemon(t, nil)
	shell := func() { eventually(t, "a shell is ready", func() bool { return d.inventory().Shells == 1 }) }
	workspace := newID()
	first := d.startMachine(workspace, 1)
	address := hostOf(first)
	d.isAt("at its start", first, address)
	d.begin(first, "itself", knowsItself)
	eventually(t, "the guest talks to itself", func() bool { return d.run(first, "test -p /home/ask && echo yes") == "yes" })
	id := d.leave(first)

	// The fork starts before its source, and must not be given the source's address.
	clone := wire.CloneRequest{Fence: d.fence(newID(), 1), Source: wire.Workspace(workspace), SourceCheckpointID: id, CheckpointID: newID()}
	d.ok(d.call("POST", "/checkpoints/clone", clone, nil))
	shell()
	forked := d.restore(clone.Owner(), clone.CheckpointID, 1)
	if hostOf(forked) == address {
		t.Errorf("the fork is at the address of its source, %s", address)
	}
	d.isAt("a fork", forked, hostOf(forked))

	shell()
	second := d.restore(workspace, id, 2)
	if second.Slot == first.Slot {
		t.Fatalf("both are in slot %s", first.Slot)
	}
	d.isAt("after a resume", second, address)
	if text := d.run(second, calls(address)); text != "served" {
		t.Errorf("the socket that listens at the guest's own address says %q", text)
	}
	if text := d.run(second, hearsItself); text != "ended\nhello" {
		t.Errorf("of its connections the guest says %q", text)
	}

	d.kill()
	d.start()
	adopted := d.machineOf(workspace)
	if adopted == nil {
		t.Fatal("the machine is not adopted")
	}
	d.isAt("under another hostd", *adopted, address)
	id = d.leave(*adopted)
	shell()
	d.isAt("and resumed there", d.restore(workspace, id, 3), address)
}

func TestWithoutAShellReadyAMachineComesBackToItsAddressUnlessSomebodyElseHasIt(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) {
		config["slots"] = map[string]any{"count": 0, "cpu_millis": 1000, "memory_mib": 256}
		config["shells"] = map[string]any{"count": 0}
		config["machine_network"] = strings.Replace(config["machine_network"].(string), "/22", "/26", 1) // leaves addresses for 14 machines
	})
	workspace := newID()
	first := d.startMachine(workspace, 1)
	address := hostOf(first)
	id := d.leave(first)
	second := d.restore(workspace, id, 2)
	d.isAt("where it is free", second, address)
	id = d.leave(second)

	var taken wire.Machine
	for range 14 {
		if taken = d.startMachine(newID(), 1); hostOf(taken) == address {
			break
		}
		d.leave(taken)
	}
	if hostOf(taken) != address {
		t.Fatalf("none of 14 machines is at %s", address)
	}
	third := d.restore(workspace, id, 3)
	if hostOf(third) == address {
		t.Fatalf("two machines are at %s", address)
	}
	d.isAt("where it is taken", third, hostOf(third))
	d.isAt("whoever has it", taken, address)
}

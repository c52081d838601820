package hostd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) readerBeside(m wire.Machine) wire.DiskReader {
	d.t.Helper()
	var reader wire.DiskReader
	d.ok(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: m.Subject.ID, MachineEpoch: m.Epoch}, &reader))
	return reader
}

func searchOf(path string, change func(*wire.SearchRequest)) wire.SearchRequest {
	request := wire.SearchRequest{Path: path, Pattern: "needle", MaxMatches: 5000, MaxFileBytes: 1 << 20, ContextLines: 2}
	if change != nil {
		change(&request)
	}
	return request
}

func (d *daemon) searchBeside(r wire.DiskReader, request wire.SearchRequest) string {
	d.t.Helper()
	body, err := json.Marshal(request)
	must(d.t, err)
	status, answer := askReader(r, "POST", "/files/search", string(body))
	if status != 200 {
		d.t.Fatalf("the search beside the machine answered %d %s", status, answer)
	}
	return answer
}

const hostileTree = `mkdir -p /srv/t/deep /srv/t/closed && cd /srv/t
printf 'one\nneedle\nthree\n' > plain; printf 'needle\r\n' > crlf; printf 'needle\0' > binary; printf needle > "odd name é"
printf needle > "$(printf 'bad\377name')"; printf needle > "$(printf 'line\nbreak')"; printf 'bad \377 needle\n' > latin
ln -s /etc out; ln -s %s canary; ln -s . loop; ln -s nowhere dangling; ln -s plain link; ln plain deep/hard; ln plain zhard
echo needle > closed/f; chmod 0 closed/f; chmod 0 closed; chmod 4755 crlf; truncate -s 1T huge; truncate -s 100000 holes; echo needle >> holes
mkfifo pipe; dir=deep; for i in $(seq 60); do dir=$dir/d; done; mkdir -p $dir; echo needle > $dir/f
mkdir many; for i in $(seq 300); do echo "needle $i" > many/$i; done; rm many/1*; mv many/2 many/moved; rm /etc/motd; echo needle > /etc/new-needle
seq -f 'needle %%g' 3000 > lines; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"`

func (d *daemon) hostileMachine() wire.Machine {
	d.t.Helper()
	canary := filepath.Join(d.dir, "canary")
	must(d.t, os.WriteFile(canary, []byte("needle of the host"), 0o644))
	m := d.startMachine(newID(), 1)
	d.run(m, fmt.Sprintf(hostileTree, canary))
	return m
}

func TestTheDiskOfARunningMachineIsSearchedAsItsAgentSearchesIt(t *testing.T) {
	d := newDaemon(t, nil)
	m := d.hostileMachine()
	reader := d.readerBeside(m)
	for _, change := range []func(*wire.SearchRequest){
		nil,
		func(q *wire.SearchRequest) { q.MaxMatches = testns.Depth(97, 7) }, // pages end within files and between them
		func(q *wire.SearchRequest) { q.MaxFileBytes = 100 },
		func(q *wire.SearchRequest) { q.Pattern, q.Regex, q.CaseInsensitive = "N[e]+dle 2.$", true, true },
		func(q *wire.SearchRequest) { q.Include, q.Exclude = []string{"many/*", "plain"}, []string{"many/3*"} },
		func(q *wire.SearchRequest) { q.Path = "/etc" },
		func(q *wire.SearchRequest) { q.Path = "/srv/t/plain" },
	} {
		request := searchOf("/srv/t", change)
		for pages := 0; ; pages++ {
			inside, beside := string(d.guest(m, "POST", "/files/search", request, testns.Patience(patient))), d.searchBeside(reader, request)
			if inside != beside {
				t.Fatalf("%+v: the guest finds\n%.2000s\nbeside it is found\n%.2000s", request, inside, beside)
			}
			var found wire.SearchResult
			must(t, json.Unmarshal([]byte(beside), &found))
			if len(found.Matches) == 0 || strings.Contains(beside, "of the host") {
				t.Fatalf("%+v finds %.2000s", request, beside)
			}
			if found.NextCursor == nil {
				break
			}
			if request.Cursor = *found.NextCursor; pages > 2000 {
				t.Fatal("no end")
			}
		}
	}
	pids := d.readers()
	if len(pids) != 1 {
		t.Fatalf("%d readers run", len(pids))
	}
	d.isJailed(pids[0])
	if points, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(points), "/claim/root/tmp") {
		t.Fatalf("what the reader mounts appears at the machine's disk: %v\n%s", err, points)
	}
}

// A reader on the host must see plain writes, an open file, a mapping and a rename at once.
func TestWhatAGuestHasWrittenIsFoundBesideItAtOnce(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.run(m, "mkdir -p /srv/w")
	reader := d.readerBeside(m)
	script := `import mmap, os
open('/srv/w/closed%[1]d', 'w').write('needle closed')
a = os.open('/srv/w/kept', os.O_WRONLY | os.O_CREAT | os.O_APPEND); os.write(a, b'needle kept %[1]d\n')
open('/srv/w/part', 'w').write('needle moved'); os.rename('/srv/w/part', '/srv/w/moved')
f = os.open('/srv/w/mapped', os.O_RDWR | os.O_CREAT); os.ftruncate(f, 4096); m = mmap.mmap(f, 4096); m[:] = (b'needle mapped %[1]d' + b'\n' * 4096)[:4096]
try: os.unlink('/srv/w/closed%[2]d')
except FileNotFoundError: pass
print('written', flush=True)`
	for i := 1; i <= testns.Depth(10, 100); i++ {
		d.run(m, fmt.Sprintf("python3 -c \"%s\"", fmt.Sprintf(script, i, i-1)))
		var found wire.SearchResult
		must(t, json.Unmarshal([]byte(d.searchBeside(reader, searchOf("/srv/w", nil))), &found))
		var lines []string
		for _, match := range found.Matches {
			lines = append(lines, strings.TrimPrefix(match.Path, "/srv/w/")+": "+match.Text)
		}
		want := []string{fmt.Sprintf("closed%d: needle closed", i)}
		for n := 1; n <= i; n++ {
			want = append(want, fmt.Sprintf("kept: needle kept %d", n))
		}
		want = append(want, fmt.Sprintf("mapped: needle mapped %d", i), "moved: needle moved")
		if !slices.Equal(lines, want) {
			t.Fatalf("after write %d\n%q is found\n%q is there", i, lines, want)
		}
	}
}

func TestAReaderBesideAMachineEndsWithIt(t *testing.T) {
	d := newDaemon(t, nil)
	workspace := newID()
	m := d.startMachine(workspace, 1)
	d.run(m, "mkdir -p /srv; echo needle > /srv/f")
	reader := d.readerBeside(m)
	if again := d.readerBeside(m); again != reader {
		t.Fatalf("a second call was handed %+v and not %+v", again, reader)
	}
	d.refused(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: workspace, MachineEpoch: 2}, nil), "not_running")
	d.refused(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: newID(), MachineEpoch: 1}, nil), "not_running")
	d.refused(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: workspace, MachineEpoch: 1, Layers: []string{d.layer}}, nil), "bad_request")

	checkpoint := newID()
	d.checkpoint(m, checkpoint, "paused")
	d.refused(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: workspace, MachineEpoch: 1}, nil), "already_running")
	d.stop(m)
	d.noReaderLeft()
	asleep := d.reader(workspace, checkpoint)
	resumed := d.restore(workspace, checkpoint, 2)
	beside := d.readerBeside(resumed)
	if count := len(d.readers()); count != 1 || asleep == beside {
		t.Fatalf("%d readers of one workspace run", count)
	}
	must(t, unix.Kill(d.readers()[0], unix.SIGKILL))
	d.noReaderLeft()
	if answer := d.searchBeside(d.readerBeside(resumed), searchOf("/srv", nil)); !strings.Contains(answer, "/srv/f") {
		t.Fatal(answer)
	}
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(workspace, 3)}, nil))
	d.noReaderLeft()
}

func TestTheFactsOfChangesBesideAMachineAreThoseOfItsAgent(t *testing.T) {
	d := withOthers(t)
	m := d.hostileMachine()
	reader := d.readerBeside(m)
	for _, limit := range []int{20, 1000} {
		for cursor := ""; ; {
			call := fmt.Sprintf("/changes?limit=%d&cursor=%s", limit, cursor)
			var inside, left wire.Changes
			must(t, json.Unmarshal(d.guest(m, "GET", call, nil, testns.Patience(patient)), &inside))
			must(t, json.Unmarshal(d.guest(m, "GET", call+"&on_disk_from=1", nil, testns.Patience(patient)), &left))
			filled := d.filledBeside(reader, left.Changes)
			if want, got := settledChanges(inside.Changes), settledChanges(left.Changes); filled == 0 && limit == 1000 || !slices.Equal(want, got) {
				t.Fatalf("limit %d, %d filled: the guest says\n%+v\nbeside it is said\n%+v", limit, filled, want, got)
			}
			if inside.NextCursor == nil {
				break
			}
			cursor = *inside.NextCursor
		}
	}
	facts := wire.Facts{}
	_, answer := askReader(reader, "POST", "/files/facts", `{"paths":["/srv/t/out/passwd","/srv/t/canary","/srv/t/closed/f","/srv/t/absent"]}`)
	must(t, json.Unmarshal([]byte(answer), &facts))
	if len(facts.Facts) != 4 || facts.Facts[0] != nil || facts.Facts[1].Type != "symlink" || facts.Facts[2].Mode != "0000" || facts.Facts[3] != nil {
		t.Fatal(answer)
	}
}

func (d *daemon) filledBeside(r wire.DiskReader, changes []wire.Change) int {
	d.t.Helper()
	var request wire.FactsRequest
	for _, c := range changes {
		if c.OnDisk {
			request.Paths = append(request.Paths, c.Path)
		}
	}
	if len(request.Paths) == 0 {
		return 0
	}
	body, err := json.Marshal(request)
	must(d.t, err)
	_, answer := askReader(r, "POST", "/files/facts", string(body))
	var found wire.Facts
	must(d.t, json.Unmarshal([]byte(answer), &found))
	facts := found.Facts
	for i, c := range changes {
		if c.OnDisk {
			changes[i] = c.WithFact(facts[0])
			facts = facts[1:]
		}
	}
	return len(found.Facts)
}

// Directory sizes differ between gVisor's cache and the disk.
func settledChanges(changes []wire.Change) []wire.Change {
	for i, c := range changes {
		if c.Type == "directory" {
			changes[i].Size = 0
		}
	}
	return changes
}

func TestReadersBesideMachinesLeaveRoomForSleepingDisksAlsoWhileTheyAreStarted(t *testing.T) {
	d := diskReads{readers: map[string]*openReader{}}
	reserve := func(disk string) bool {
		_, placed := d.reserve(&openReader{source: wire.DiskReadRequest{WorkspaceID: newID()}, disk: disk}, time.Now())
		return placed
	}
	for range besidesMax {
		if !reserve("disk") {
			t.Fatalf("%d readers are too many", len(d.readers))
		}
	}
	if reserve("disk") {
		t.Error("one more reads beside a machine")
	}
	for len(d.readers) < diskReadersMax {
		if !reserve("") {
			t.Fatalf("%d readers are too many", len(d.readers))
		}
	}
	if reserve("") {
		t.Error("one more reads a sleeping disk")
	}
}

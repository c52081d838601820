package hostd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) asleep(script string, calls []string) (workspace, checkpoint string, awake map[string]string) {
	d.t.Helper()
	workspace, checkpoint, awake = newID(), newID(), map[string]string{}
	m := d.startMachine(workspace, 1)
	d.run(m, script)
	for _, call := range calls {
		awake[call] = string(d.guest(m, "GET", call, nil, testns.Patience(patient)))
	}
	d.checkpoint(m, checkpoint, "paused")
	d.stop(m)
	return workspace, checkpoint, awake
}

func (d *daemon) reader(workspace, checkpoint string) wire.DiskReader {
	d.t.Helper()
	var reader wire.DiskReader
	d.ok(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: workspace, CheckpointID: checkpoint}, &reader))
	return reader
}

func askReader(r wire.DiskReader, method, path, body string) (int, string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", r.Address)
	}}}
	request, err := http.NewRequest(method, "http://reader"+path, strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("Authorization", "Bearer "+r.AgentKey)
	request.Header.Set("X-Berth-Epoch", fmt.Sprint(r.Epoch))
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

func (d *daemon) readers() []int {
	var pids []int
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		if bytes.HasPrefix(line, []byte("berth-"+d.config["instance"].(string)+"-disk-reader\x00")) {
			pid, err := strconv.Atoi(strings.Split(path, "/")[2])
			must(d.t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

func (d *daemon) groups() []string {
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/berth-" + d.config["instance"].(string) + "/machines/read-*")
	return groups
}

func (d *daemon) noReaderLeft() {
	d.t.Helper()
	eventually(d.t, "no process, cgroup and socket of a reader is left", func() bool {
		sockets, _ := filepath.Glob(d.dir + "/run/reads/read-*")
		return len(d.readers()) == 0 && len(d.groups()) == 0 && len(sockets) == 0
	})
}

// A running sandbox caches modification times that are milliseconds off, and directories' first sizes.
func settled(answer string) string {
	answer = regexp.MustCompile(`"modified_at":"[^"]*"`).ReplaceAllString(answer, "")
	return regexp.MustCompile(`"type":"directory","size":\d+`).ReplaceAllString(answer, "")
}

const treeScript = `mkdir -p /home/user/d/e && cd /home/user && printf 'first line\nneedle in it\n' > text && head -c 300000 /dev/urandom > bytes && chmod 600 text
ln -s /home/user/text absolute; ln -s text relative; ln -s nowhere dangling; rm /etc/motd; mv /usr/share/zoneinfo /usr/share/moved 2>/dev/null
chown 1234:4321 bytes; chmod 0 bytes; touch "odd name é"; truncate -s 1T sparse; :`

func TestASleepingWorkspacesDiskIsReadAsItsAgentReadIt(t *testing.T) {
	d := newDaemon(t, nil)
	calls := []string{"/files?path=/home/user/text", "/files?path=/home/user/bytes&revision=true", "/files?path=/home/user/bytes&offset=100&length=7",
		"/files?path=/home/user/text&offset=9999", "/files?path=/home/user/absolute", "/files?path=/home/user/relative", "/files?path=/home/user/dangling",
		"/files?path=/home/user/d", "/files?path=/home/user/absent", "/files?path=relative", "/files?path=/etc/passwd",
		"/files?path=/../../../../etc/passwd", "/files/stat?path=/home/user/text&revision=true", "/files/stat?path=/home/user/absolute",
		"/files/stat?path=/home/user/sparse&revision=true", "/files/stat?path=/etc/motd", "/files/list?path=/home/user", "/files/list?path=/home/user&limit=2",
		"/files/list?path=/usr/share", "/files/list?path=/etc", "/files/list?path=/home/user/text"}
	workspace, checkpoint, awake := d.asleep(treeScript, calls)
	reader := d.reader(workspace, checkpoint)
	for _, call := range calls {
		if _, asleep := askReader(reader, "GET", call, ""); settled(asleep) != settled(awake[call]) {
			t.Errorf("%s: asleep %.300q, awake %.300q", call, asleep, awake[call])
		}
	}
	search := `{"path":"/home/user","pattern":"needle","regex":false,"case_insensitive":false,"include":[],"exclude":[],"max_matches":10,"max_file_bytes":1048576,"context_lines":1}`
	if status, answer := askReader(reader, "POST", "/files/search", search); status != 200 || !strings.Contains(answer, "needle in it") {
		t.Errorf("search answered %d %s", status, answer)
	}
	if again := d.reader(workspace, checkpoint); again != reader {
		t.Errorf("a second call was handed %+v and not %+v", again, reader)
	}
	for _, call := range []string{"PUT /files?path=/home/user/new", "DELETE /files?path=/home/user/text", "POST /exec", "GET /incarnation"} {
		method, path, _ := strings.Cut(call, " ")
		if status, answer := askReader(reader, method, path, "{}"); status != 404 && status != 405 {
			t.Errorf("%s answered %d %s", call, status, answer)
		}
	}
	wrong := reader
	wrong.AgentKey = strings.Repeat("x", len(reader.AgentKey))
	if status, _ := askReader(wrong, "GET", calls[0], ""); status != 401 {
		t.Errorf("another key was answered with %d", status)
	}
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(workspace, 2)}, nil))
	d.noReaderLeft()
}

func TestAReaderHasNothingButTheDisk(t *testing.T) {
	d := newDaemon(t, nil)
	canary := filepath.Join(d.dir, "canary")
	must(t, os.WriteFile(canary, []byte("host canary"), 0o644))
	workspace, checkpoint, _ := d.asleep(fmt.Sprintf("mkdir -p /home/user; cd /home/user; ln -s %s l; ln -s %s dir; ln -s /proc/1/root/%s p; ln -s /proc/self/fd/3 fd", canary, d.dir, canary), nil)
	reader := d.reader(workspace, checkpoint)
	for _, path := range []string{"/home/user/l", "/home/user/dir/canary", "/home/user/p", "/home/user/fd", canary, "/home/user/../../.." + canary, "/proc/self/root" + canary} {
		if status, answer := askReader(reader, "GET", "/files?path="+path, ""); status != 404 && !strings.Contains(answer, `"in_memory":true`) {
			t.Errorf("%s answered %d %q", path, status, answer)
		}
	}
	pids := d.readers()
	if len(pids) != 1 {
		t.Fatalf("%d readers run", len(pids))
	}
	d.isJailed(pids[0])
}

func TestAReaderSaysOfWhatWasInMemoryThatItIsThere(t *testing.T) {
	d := withOthers(t)
	workspace, checkpoint, _ := d.asleep(`mkdir -p /home/user; cd /home/user; echo needle > /tmp/f; echo needle > kept
ln -s /tmp t; ln -s ../../tmp/f f; ln -s / r; ln -s kept k`, nil)
	reader := d.reader(workspace, checkpoint)
	searchOf := func(path string) string {
		return fmt.Sprintf(`{"path":%q,"pattern":"needle","regex":false,"case_insensitive":false,"include":["kept","f"],"exclude":["usr"],"max_matches":10,"max_file_bytes":1048576,"context_lines":0}`, path)
	}
	for _, path := range []string{"/tmp", "/tmp/f", "/tmp/absent", "/dev", "/dev/null", "/proc", "/proc/self/stat", "/sys/", "//tmp//f", "/./tmp/f",
		"/home/../tmp/f", "/home/user/r/tmp/f", "/home/user/t/f", "/home/user/f/"} {
		for verb, method := range map[string]string{"": "GET", "/stat": "GET", "/list": "GET", "/search": "POST"} {
			status, answer := askReader(reader, method, "/files"+verb+"?path="+path, searchOf(path))
			if status != 409 || !strings.Contains(answer, `"details":{"in_memory":true}`) {
				t.Errorf("%s of %s: %d %s", verb, path, status, answer)
			}
		}
	}
	for call, want := range map[string]string{"/files?path=/home/user/k": "needle", "/files/stat?path=/home/user/t": `"target":"/tmp"`,
		"/files/list?path=/": `"path":"/tmp"`, "/files/list?path=/home/user/r": `"path":"/home/user/r/tmp"`} {
		if status, answer := askReader(reader, "GET", call, ""); status != 200 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", call, status, answer)
		}
	}
	for path, want := range map[string]string{"/": "/home/user/kept", "/home/user/r": "/home/user/r/home/user/kept"} {
		status, answer := askReader(reader, "POST", "/files/search", searchOf(path))
		if status != 200 || !strings.Contains(answer, `"path":"`+want+`"`) || strings.Count(answer, "needle") != 1 {
			t.Errorf("search of %s: %d %s", path, status, answer)
		}
	}
}

func (d *daemon) isJailed(pid int) {
	d.t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	must(d.t, err)
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			continue
		}
		for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534", "Groups:\t \n", "NoNewPrivs:\t1", "Seccomp:\t2", "CapInh:\t0000000000000000",
			"CapEff:\t0000000000000004", "CapPrm:\t0000000000000004", "CapBnd:\t0000000000000004", "CapAmb:\t0000000000000000"} {
			if !bytes.Contains(status, []byte(want)) {
				d.t.Errorf("%s does not say %q:\n%s", task, want, status)
			}
		}
	}
	for _, kind := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		must(d.t, err)
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		must(d.t, err)
		if own == its {
			d.t.Errorf("the reader shares the host's %s namespace", kind)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	must(d.t, err)
	want := []string{"/", "/tmp", "/dev", "/proc", "/sys"} // each a part of the disk
	lines := strings.Split(strings.TrimSpace(string(mounts)), "\n")
	for i, line := range lines {
		if len(lines) != len(want) || !strings.Contains(line, fmt.Sprintf(" %s %[1]s ro,nosuid,nodev,noexec", want[i])) {
			d.t.Fatalf("the reader's mounts are\n%s", mounts)
		}
	}
	links, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", pid))
	must(d.t, err)
	if lines := strings.Split(strings.TrimSpace(string(links)), "\n"); len(lines) != 3 || !strings.Contains(lines[2], "lo:") {
		d.t.Errorf("the reader's network is\n%s", links)
	}
}

func TestAReaderEndsWhenItsDiskIsTouchedAndWhenAnythingDies(t *testing.T) {
	d := newDaemon(t, nil)
	workspace, checkpoint, _ := d.asleep("mkdir -p /home/user; echo v1 > /home/user/f", nil)
	const path = "/files?path=/home/user/f"
	readsAs := func(reader wire.DiskReader, want string) {
		t.Helper()
		if _, text := askReader(reader, "GET", path, ""); text != want {
			t.Fatalf("the disk holds %q where it should hold %q", text, want)
		}
	}
	readsAs(d.reader(workspace, checkpoint), "v1\n")

	must(t, unix.Kill(d.readers()[0], unix.SIGKILL))
	d.noReaderLeft()
	readsAs(d.reader(workspace, checkpoint), "v1\n")

	d.kill()
	eventually(t, "the reader has ended with hostd", func() bool { return len(d.readers()) == 0 })
	d.start()
	d.noReaderLeft()
	readsAs(d.reader(workspace, checkpoint), "v1\n")

	resumed := d.restore(workspace, checkpoint, 2)
	d.noReaderLeft()
	d.refused(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: workspace, CheckpointID: checkpoint}, nil), "already_running")
	d.run(resumed, "echo v2 > /home/user/f")
	second := newID()
	d.checkpoint(resumed, second, "paused")
	d.stop(resumed)
	readsAs(d.reader(workspace, checkpoint), "v1\n")
	readsAs(d.reader(workspace, second), "v2\n")
	if count := len(d.readers()); count != 1 {
		t.Fatalf("%d readers of one workspace run", count)
	}
	d.ok(d.call("POST", "/checkpoints/delete", wire.DeleteRequest{Fence: d.fence(workspace, 3), Names: []string{checkpoint}}, nil))
	if count := len(d.readers()); count != 1 {
		t.Fatalf("the reader of another checkpoint ended (%d run)", count)
	}
	d.ok(d.call("POST", "/checkpoints/delete", wire.DeleteRequest{Fence: d.fence(workspace, 3), Names: []string{second}}, nil))
	d.noReaderLeft()
	d.refused(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: workspace, CheckpointID: second}, nil), "not_found")

	var blank wire.DiskReader
	d.ok(d.call("POST", "/disks/read", wire.DiskReadRequest{WorkspaceID: workspace, Layers: []string{d.layer}}, &blank))
	if status, text := askReader(blank, "GET", "/files?path=/etc/passwd", ""); status != 200 || !strings.HasPrefix(text, "root:") {
		t.Fatalf("the template's file answers %d %q", status, text)
	}
	if status, _ := askReader(blank, "GET", path, ""); status != 404 {
		t.Fatalf("a blank disk answers %d", status)
	}
}

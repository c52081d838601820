package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Group is one cgroup. On v1 it is a directory of the same path under every controller.
type Group struct {
	v    version
	path string
}

const (
	killBound    = 20 * time.Second // a process in an uninterruptible wait may need this long to end
	condemnTries = 20               // each pass reaches processes that were forked before their parent was killed
	deleteTries  = 100              // 10 ms apart, because the kernel releases dead processes a moment later
	freezeBound  = 2 * time.Second
	// For this long, Kill polls in short steps: a sandbox dies in 10-20 ms, and a caller waits.
	killEager = 30 * time.Millisecond
)

// OCIPath is for linux.cgroupsPath. runsc joins an existing group, changes none of its limits, and does not delete it.
// runsc reads the group's memory limit for the guest's MemTotal and its quota for the guest's CPUs. So callers set
// guest-visible limits before the start, and raise them for headroom afterwards. With --ignore-cgroups the guest would
// see the host's memory. On v1 runsc adds groups under unused controllers; Delete removes those, too.
func (g *Group) OCIPath() string { return "/" + g.path }

// SetLimits treats zero as no limit. It fails with EBUSY and leaves the old memory limit if the group uses more memory.
func (g *Group) SetLimits(l Limits) error {
	if l.CPUMillis < 0 || l.MemoryBytes < 0 || l.Pids < 0 {
		return fmt.Errorf("negative limit %+v: %w", l, unix.EINVAL)
	}
	if err := g.v.setLimits(g.path, l); err != nil {
		return fmt.Errorf("limit cgroup %s: %w", g.path, err)
	}
	return nil
}

// SetMemory changes only the memory limit. Like SetLimits, it fails with EBUSY if the group uses more.
func (g *Group) SetMemory(bytes int64) error {
	if err := g.v.setMemory(g.path, bytes); err != nil {
		return fmt.Errorf("limit cgroup %s: %w", g.path, err)
	}
	return nil
}

func (g *Group) Add(pid int) error {
	for _, dir := range g.v.dirs(g.path) {
		err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
		if err != nil && !errors.Is(err, os.ErrNotExist) { // missing under a v1 controller that this group does not use
			return fmt.Errorf("move %d to cgroup %s: %w", pid, g.path, err)
		}
	}
	return nil
}

// Procs lists the group's processes; the list is empty if the group does not exist.
func (g *Group) Procs() ([]int, error) { return readProcs(g.v.procsFile(g.path)) }

// Exists reports a state that may have changed when the caller reads the result.
func (g *Group) Exists() bool {
	_, err := os.Stat(g.v.procsFile(g.path))
	return err == nil
}

func (g *Group) Freeze() error { return g.setFrozen(true) }

// Thaw returns before all processes run again.
func (g *Group) Thaw() error { return g.setFrozen(false) }

func (g *Group) setFrozen(on bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), freezeBound)
	defer cancel()
	if err := g.v.freeze(ctx, g.path, on); err != nil {
		if on { // a partly frozen group is worse than a running one, so it is thawed
			err = errors.Join(err, g.v.freeze(ctx, g.path, false))
		}
		return fmt.Errorf("freeze(%v) cgroup %s: %w", on, g.path, err)
	}
	return nil
}

func (g *Group) Frozen() (bool, error) { return g.v.frozen(g.path) }

// FreezerFile is the file with which the cell thaws without hostd: "THAWED" into freezer.state (v1), "0" into
// cgroup.freeze (v2).
func (g *Group) FreezerFile() string { return g.v.freezerFile(g.path) }

// strangers lists the group's processes except this one. On v1, a thread of hostd is in the group into which it spawns.
func (g *Group) strangers() ([]int, error) {
	pids, err := g.Procs()
	return slices.DeleteFunc(pids, func(pid int) bool { return pid == os.Getpid() }), err
}

// Condemn kills all other processes of the group, and repeats the kill until no new process appears.
func (g *Group) Condemn() error {
	condemned := map[int]bool{}
	for range condemnTries {
		pids, err := g.strangers()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(pids, func(pid int) bool { return !condemned[pid] }) {
			return nil
		}
		if err := g.v.killAll(g.path); err != nil && !isGone(err) {
			return fmt.Errorf("kill cgroup %s: %w", g.path, err)
		}
		for _, pid := range pids {
			condemned[pid] = true
		}
	}
	return fmt.Errorf("cgroup %s has new processes all the time", g.path)
}

// EndOthers kills all processes of the group except the spared one.
func (g *Group) EndOthers(spared int) error { return signalAll(g.v.procsFile(g.path), spared) }

// Kill waits until all other processes have ended. On v1 it thaws the group first: a frozen process ignores SIGKILL.
func (g *Group) Kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killBound)
	defer cancel()
	began, pause := time.Now(), time.Millisecond
	for {
		pids, err := g.strangers()
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := g.v.killAll(g.path); err != nil && !isGone(err) {
			return fmt.Errorf("kill cgroup %s: %w", g.path, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cgroup %s still holds %v: %w", g.path, pids, ctx.Err())
		case <-time.After(pause):
			if time.Since(began) > killEager {
				pause = min(2*pause, 50*time.Millisecond)
			}
		}
	}
}

// Delete also removes the groups below this one.
func (g *Group) Delete() error {
	for _, dir := range g.v.dirs(g.path) {
		if err := removeDir(dir); err != nil {
			return fmt.Errorf("remove cgroup: %w", err)
		}
	}
	return nil
}

func removeDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeDir(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	for range deleteTries {
		if err = unix.Rmdir(dir); err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s: %w", dir, err)
}

// Stats returns zero for a value whose controller is missing.
func (g *Group) Stats() (cpuUsec, memoryBytes, oomKills int64, err error) {
	s, err := g.v.stats(g.path)
	return s.CPUUsec, s.MemoryBytes, s.OOMKills, err
}

// signalAll opens pidfds, then signals only pids that are still in the group. So a reused pid is never hit.
func signalAll(procsFile string, spared int) error {
	before, err := readProcs(procsFile)
	if err != nil {
		return err
	}
	fds := map[int]int{}
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	for _, pid := range before {
		if pid == spared {
			continue
		}
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		}
	}
	after, err := readProcs(procsFile)
	if err != nil {
		return err
	}
	for pid, fd := range fds {
		if slices.Contains(after, pid) {
			if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !isGone(err) {
				return err
			}
		}
	}
	return nil
}

func readProcs(file string) ([]int, error) {
	text, err := os.ReadFile(file)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pids := []int{}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s holds %q", file, field)
		}
		if pid > 0 { // the kernel shows 0 for a process of an outer PID namespace
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isGone recognizes a removed group (ENOENT, or ENODEV if the file was open) and an ended process (ESRCH).
func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// write does not create files: a missing file means a missing controller.
func write(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return fmt.Errorf("write %q: %w", value, err)
	}
	return nil
}

func readInt(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func readKeyed(file string) (map[string]int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	values := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			values[key] = number
		}
	}
	return values, nil
}

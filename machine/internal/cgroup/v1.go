package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const cpuPeriodUsec = 100_000

// versionOne maps each controller to its mount point. Controllers mounted together ("cpu,cpuacct") share one.
type versionOne struct{ mounts map[string]string }

// cpuset is missing: a cpuset group without CPUs and nodes accepts no process. Other controllers limit nothing here.
var usedV1 = []string{"freezer", "cpu", "cpuacct", "memory", "pids"}

func (v *versionOne) file(controller, group, name string) string {
	return filepath.Join(v.mounts[controller], group, name)
}

func (v *versionOne) prepare(group string, parents bool) error {
	for _, controller := range usedV1 {
		if mount := v.mounts[controller]; mount != "" {
			if err := os.Mkdir(filepath.Join(mount, group), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
	}
	if v.mounts["memory"] == "" {
		return nil
	}
	// Before Linux 5.11, a limit includes only children that were made after use_hierarchy was set.
	err := write(v.file("memory", group, "memory.use_hierarchy"), "1")
	if errors.Is(err, os.ErrNotExist) || !parents {
		return nil
	}
	return err
}

func (v *versionOne) dirs(group string) []string {
	all := []string{}
	for _, mount := range v.mounts {
		if dir := filepath.Join(mount, group); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return all
}

func (v *versionOne) procsFile(group string) string { return v.file("freezer", group, "cgroup.procs") }
func (v *versionOne) freezerFile(group string) string {
	return v.file("freezer", group, "freezer.state")
}
func (v *versionOne) rootProcs() string { return "" }

func (v *versionOne) setWeight(group string, percent int) error {
	return write(v.file("cpu", group, "cpu.shares"), strconv.Itoa(1024*percent/100))
}

func (v *versionOne) setLimits(group string, l Limits) error {
	quota, pids := "-1", "max"
	if l.CPUMillis > 0 {
		quota = strconv.Itoa(max(l.CPUMillis*cpuPeriodUsec/1000, 1000)) // the kernel's minimum is 1 ms
	}
	if l.Pids > 0 {
		pids = strconv.FormatInt(l.Pids, 10)
	}
	return errors.Join(
		write(v.file("cpu", group, "cpu.cfs_period_us"), strconv.Itoa(cpuPeriodUsec)),
		write(v.file("cpu", group, "cpu.cfs_quota_us"), quota),
		write(v.file("pids", group, "pids.max"), pids),
		v.setWeight(group, l.weight()),
		v.setMemory(group, l.MemoryBytes),
	)
}

// Both limits are equal, so that no machine swaps. memory+swap may never be below memory, hence the order.
func (v *versionOne) setMemory(group string, bytes int64) error {
	memory, both := v.file("memory", group, "memory.limit_in_bytes"), v.file("memory", group, "memory.memsw.limit_in_bytes")
	if bytes == 0 {
		bytes = -1
	}
	value := strconv.FormatInt(bytes, 10)
	current, err := readInt(memory)
	if err != nil || current == bytes {
		return err
	}
	order := []string{both, memory}
	if bytes > 0 && bytes < current {
		order = []string{memory, both}
	}
	for _, file := range order {
		err := write(file, value)
		if err != nil && !(file == both && errors.Is(err, os.ErrNotExist)) { // kernels without swap accounting have no memsw file
			return err
		}
	}
	return nil
}

// protect does nothing: v1 has only memory.soft_limit_in_bytes, which limits other groups.
func (v *versionOne) protect(string, int64) error { return nil }

// A concurrent fork leaves the group at FREEZING, so freeze repeats the write until the state is reached.
func (v *versionOne) freeze(ctx context.Context, group string, on bool) error {
	want := "THAWED"
	if on {
		want = "FROZEN"
	}
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		if err := write(v.freezerFile(group), want); err != nil {
			return err
		}
		text, err := os.ReadFile(v.freezerFile(group))
		if err != nil || strings.TrimSpace(string(text)) == want {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (v *versionOne) frozen(group string) (bool, error) {
	text, err := os.ReadFile(v.freezerFile(group))
	return strings.TrimSpace(string(text)) == "FROZEN", err
}

func (v *versionOne) killAll(group string) error {
	if err := write(v.freezerFile(group), "THAWED"); err != nil {
		return err
	}
	return signalAll(v.procsFile(group), os.Getpid())
}

func (v *versionOne) stats(group string) (Stats, error) {
	var s Stats
	if v.mounts["cpuacct"] != "" {
		nanoseconds, err := readInt(v.file("cpuacct", group, "cpuacct.usage"))
		if err != nil {
			return s, err
		}
		s.CPUUsec = nanoseconds / 1000
	}
	usage, err := readInt(v.file("memory", group, "memory.usage_in_bytes"))
	if err != nil {
		return s, err
	}
	detail, err := readKeyed(v.file("memory", group, "memory.stat"))
	if err != nil {
		return s, err
	}
	oom, err := readKeyed(v.file("memory", group, "memory.oom_control"))
	if err != nil {
		return s, err
	}
	s.MemoryBytes = max(usage-detail["total_inactive_file"], 0)
	s.OOMKills = oom["oom_kill"]
	return s, nil
}

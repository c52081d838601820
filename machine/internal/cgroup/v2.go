package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const leaf = "berth-rest"

type versionTwo struct {
	root   string
	needed []string
}

func (v *versionTwo) file(group, name string) string { return filepath.Join(v.root, group, name) }

func (v *versionTwo) prepare(group string, parents bool) error {
	if err := os.Mkdir(filepath.Join(v.root, group), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if parents {
		return v.delegate(group)
	}
	return nil
}

func (v *versionTwo) delegate(group string) error {
	for _, controller := range v.needed {
		if err := write(v.file(group, "cgroup.subtree_control"), "+"+controller); err != nil {
			return err
		}
	}
	return nil
}

func (v *versionTwo) moveToLeaf() error {
	if err := os.Mkdir(filepath.Join(v.root, leaf), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	for range 10 { // processes may fork during the move
		pids, err := readProcs(v.file("", "cgroup.procs"))
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := write(v.file(leaf, "cgroup.procs"), strconv.Itoa(pid)); err != nil && !isGone(err) {
				return err
			}
		}
	}
	return errors.New("processes keep appearing in the root group")
}

func (v *versionTwo) dirs(group string) []string      { return []string{filepath.Join(v.root, group)} }
func (v *versionTwo) procsFile(group string) string   { return v.file(group, "cgroup.procs") }
func (v *versionTwo) freezerFile(group string) string { return v.file(group, "cgroup.freeze") }

func (v *versionTwo) rootProcs() string {
	if _, err := os.Stat(v.file(leaf, "")); err == nil {
		return v.file(leaf, "cgroup.procs")
	}
	return v.file("", "cgroup.procs")
}

func (v *versionTwo) has(controller string) bool {
	for _, needed := range v.needed {
		if needed == controller {
			return true
		}
	}
	return false
}

func (v *versionTwo) setWeight(group string, percent int) error {
	if !v.has("cpu") {
		return nil
	}
	return write(v.file(group, "cpu.weight"), strconv.Itoa(percent))
}

// The kernel's out-of-memory kill ends the whole group, because a part of a sandbox is useless.
func (v *versionTwo) setLimits(group string, l Limits) error {
	failed := v.setWeight(group, l.weight())
	if v.has("cpu") {
		quota := "max"
		if l.CPUMillis > 0 {
			quota = strconv.Itoa(max(l.CPUMillis*cpuPeriodUsec/1000, 1000))
		}
		failed = errors.Join(failed, write(v.file(group, "cpu.max"), quota+" "+strconv.Itoa(cpuPeriodUsec)))
	}
	if v.has("pids") {
		failed = errors.Join(failed, write(v.file(group, "pids.max"), orMax(l.Pids)))
	}
	if v.has("memory") {
		failed = errors.Join(failed, v.setMemory(group, l.MemoryBytes),
			write(v.file(group, "memory.oom.group"), "1"), v.noSwap(group))
	}
	return failed
}

// The group may allocate this much before the new limit applies, so the limit must exceed the use by it.
const slackBytes = 32 << 20

// A limit below the current use is refused: the kernel would kill a group that it cannot reclaim below the limit.
func (v *versionTwo) setMemory(group string, bytes int64) error {
	if !v.has("memory") {
		return nil
	}
	if text, err := os.ReadFile(v.file(group, "memory.max")); err != nil || strings.TrimSpace(string(text)) == orMax(bytes) {
		return err
	}
	if bytes > 0 {
		s, err := v.stats(group)
		if err != nil {
			return err
		}
		if s.MemoryBytes+slackBytes > bytes {
			return fmt.Errorf("%d bytes are in use: %w", s.MemoryBytes, unix.EBUSY)
		}
	}
	return write(v.file(group, "memory.max"), orMax(bytes))
}

func (v *versionTwo) protect(group string, bytes int64) error {
	if !v.has("memory") {
		return nil
	}
	return write(v.file(group, "memory.min"), strconv.FormatInt(bytes, 10))
}

func (v *versionTwo) noSwap(group string) error {
	err := write(v.file(group, "memory.swap.max"), "0")
	if errors.Is(err, os.ErrNotExist) { // the kernel has no swap
		return nil
	}
	return err
}

func orMax(value int64) string {
	if value == 0 {
		return "max"
	}
	return strconv.FormatInt(value, 10)
}

func (v *versionTwo) freeze(ctx context.Context, group string, on bool) error {
	value := "0"
	if on {
		value = "1"
	}
	if err := write(v.freezerFile(group), value); err != nil || !on {
		return err
	}
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		frozen, err := v.frozen(group)
		if err != nil || frozen {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (v *versionTwo) frozen(group string) (bool, error) {
	events, err := readKeyed(v.file(group, "cgroup.events"))
	return events["frozen"] == 1, err
}

// cgroup.kill (Linux 5.14) also kills processes that fork during the call. Older kernels have only signals.
func (v *versionTwo) killAll(group string) error {
	err := write(v.file(group, "cgroup.kill"), "1")
	if errors.Is(err, os.ErrNotExist) {
		return signalAll(v.procsFile(group), os.Getpid())
	}
	return err
}

func (v *versionTwo) stats(group string) (Stats, error) {
	var s Stats
	cpu, err := readKeyed(v.file(group, "cpu.stat"))
	if err != nil {
		return s, err
	}
	s.CPUUsec = cpu["usage_usec"]
	if !v.has("memory") {
		return s, nil
	}
	usage, err := readInt(v.file(group, "memory.current"))
	if err != nil {
		return s, err
	}
	detail, err := readKeyed(v.file(group, "memory.stat"))
	if err != nil {
		return s, err
	}
	events, err := readKeyed(v.file(group, "memory.events"))
	if err != nil {
		return s, err
	}
	s.MemoryBytes = max(usage-detail["inactive_file"], 0)
	s.OOMKills = events["oom_kill"]
	return s, nil
}

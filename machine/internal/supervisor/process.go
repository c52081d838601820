package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/rlimit"
)

// A child has this variable in its environment, by which search finds it if its pid was not written to a file.
const markVariable = "BERTH_SUPERVISED"

const (
	settleTime       = 2 * time.Second
	settleProbeEvery = time.Millisecond
)

// process identifies a child by pid, start time and boot, because the kernel reuses pids.
type process struct {
	PID         int    `json:"pid"`
	StartTime   uint64 `json:"start_time"` // clock ticks since boot
	BootID      string `json:"boot_id"`
	Fingerprint string `json:"fingerprint"`
	pidfd       int
	ours        bool // the child was started by this process, so its exit status will be known
}

// start makes a new session, because a signal to the terminal's group must reach only the supervisor.
func start(config Config, child Child, env []string) (*process, error) {
	log, err := openLog(config.LogDir, child)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	// fork also returns a pidfd. A child that ends at once could be reaped before a later open.
	pidfd := -1
	attributes := &syscall.ProcAttr{
		Dir: child.Dir,
		Env: append(slices.Clone(env), mark(config.Instance, child)),
		// The outputs are files. With pipes, a child would lose its output or die of SIGPIPE when the supervisor ends.
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd,
			Credential: &syscall.Credential{Uid: child.UID, Gid: child.GID, NoSetGroups: os.Getuid() != 0}},
	}
	pid, err := fork(child, attributes)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", child.Argv[0], err)
	}
	if pidfd < 0 {
		return nil, errors.New("this kernel has no pidfds: Linux 5.4 or newer is needed")
	}
	started := &process{PID: pid, Fingerprint: child.fingerprint(), pidfd: pidfd, ours: true}
	if started.BootID, err = bootID(); err != nil {
		return nil, err
	}
	if started.StartTime, err = started.settledStartTime(); err != nil {
		return started, nil // it has ended, so there is nothing to record
	}
	return started, writePIDFile(config, child, started)
}

func adopt(config Config, child Child) (*process, error) {
	found, err := find(config, child)
	if found != nil && err == nil {
		// An earlier version may have set no limit, so it is set here, too. A container may forbid the change for other
		// users' processes (EPERM) until these are restarted.
		if err = rlimit.NoCoreFilesOf(found.PID); errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPERM) {
			err = nil
		}
	}
	return found, err
}

func find(config Config, child Child) (*process, error) {
	text, err := os.ReadFile(pidPath(config, child))
	if err == nil {
		if found := reopen(text); found != nil {
			return found, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return search(config, child)
}

// reopen returns nil if the process has ended or its pid was reused.
func reopen(text []byte) *process {
	var noted process
	if json.Unmarshal(text, &noted) != nil {
		return nil // the file is partly written, after a full disk or a power loss; search finds the process
	}
	found, err := open(noted.PID)
	if err != nil || found.StartTime != noted.StartTime || found.BootID != noted.BootID {
		if err == nil {
			found.close()
		}
		return nil
	}
	found.Fingerprint = noted.Fingerprint
	return found
}

// search compares the user ids, too, because any user can fake a mark and a command line.
func search(config Config, child Child) (*process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isChild(pid, config.Instance, child) {
			continue
		}
		found, err := open(pid)
		if err != nil {
			continue
		}
		if !isChild(pid, config.Instance, child) { // the pid was reused before the pidfd was opened
			found.close()
			continue
		}
		found.Fingerprint = child.fingerprint()
		return found, writePIDFile(config, child, found)
	}
	return nil, nil
}

func isChild(pid int, instance string, child Child) bool {
	return hasUser(pid, child.UID, child.GID) && hasMark(pid, mark(instance, child)) && hasArgv(pid, child.Argv)
}

// hasUser compares all ids, including the saved ones.
func hasUser(pid int, uid, gid uint32) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	want := map[string]string{"Uid:": strconv.FormatUint(uint64(uid), 10), "Gid:": strconv.FormatUint(uint64(gid), 10)}
	for line := range strings.Lines(string(status)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || want[fields[0]] == "" {
			continue
		}
		if len(fields) != 5 || slices.ContainsFunc(fields[1:], func(id string) bool { return id != want[fields[0]] }) {
			return false
		}
		delete(want, fields[0])
	}
	return len(want) == 0
}

func mark(instance string, child Child) string {
	return fmt.Sprintf("%s=%s/%s/%s", markVariable, instance, child.Name, child.fingerprint())
}

func hasMark(pid int, mark string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(each []byte) bool { return string(each) == mark })
}

func hasArgv(pid int, argv []string) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && string(cmdline) == strings.Join(argv, "\x00")+"\x00"
}

// open gets a pidfd, so that a later signal cannot reach another process with a reused pid.
func open(pid int) (*process, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	opened := &process{PID: pid, pidfd: pidfd}
	if opened.StartTime, err = opened.settledStartTime(); err != nil {
		opened.close()
		return nil, err
	}
	opened.BootID, err = bootID()
	return opened, err
}

// settledStartTime waits for a process that executes from another thread than its first, as hostd does: it looks like a
// zombie for a moment.
func (p *process) settledStartTime() (uint64, error) {
	for deadline := time.Now().Add(settleTime); ; {
		startTime, err := startTimeOf(p.PID)
		if err == nil || p.wait(settleProbeEvery) || time.Now().After(deadline) {
			return startTime, err
		}
	}
}

func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// The name before field 22 may contain spaces and brackets, so the last bracket ends it. A zombie has ended.
func startTimeOf(pid int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, syscall.ESRCH
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

func (p *process) wait(timeout time.Duration) bool {
	deadline := time.Now().Add(timeout)
	for {
		left := max(0, time.Until(deadline))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if n > 0 {
			return true
		}
		if (err == nil || !errors.Is(err, unix.EINTR)) && left == 0 {
			return false
		}
	}
}

func (p *process) signal(signal syscall.Signal) error {
	err := unix.PidfdSendSignal(p.pidfd, signal, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (p *process) ended() string {
	if !p.ours {
		return "ended"
	}
	return describe(exits.take(p.PID))
}

func (p *process) close() { unix.Close(p.pidfd) }

func pidPath(config Config, child Child) string {
	return filepath.Join(config.RunDir, "children", child.Name+".json")
}

func writePIDFile(config Config, child Child, p *process) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	path := pidPath(config, child)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

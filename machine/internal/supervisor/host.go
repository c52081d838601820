package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var ErrRunning = errors.New("Berth is already running on this data directory")

// Lock locks the data directory until the process ends, even if it is killed. Children do not inherit the lock.
func Lock(dataDir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dataDir, "supervisor.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(file.Name()) // used only in the message
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (%s, process %s)", ErrRunning, dataDir, strings.TrimSpace(string(holder)))
		}
		return nil, err
	}
	if err := file.Truncate(0); err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(file, "%d\n", os.Getpid())
	return file, err
}

// BecomeReaper makes this process the parent of all orphans below it.
func BecomeReaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// With this score, the kernel kills other processes first if memory runs out. hostd sets another score for machines.
const serviceScore = "-900"

// Protect sets the score. In some containers it fails, which is only reported.
func Protect() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(serviceScore), 0); err != nil {
		return fmt.Errorf("where the computer has no memory left, the service may be ended first: %w", err)
	}
	return nil
}

func reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if pid <= 0 {
			return
		}
		exits.note(pid, status)
	}
}

// mount leaves a correct mount unchanged, because running children may use it.
func (m Mount) mount() error {
	same, err := isSameDirectory(m.Source, m.Target)
	if err != nil || same {
		return err
	}
	if err := m.unmount(); err != nil {
		return err
	}
	if err := os.MkdirAll(m.Target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.Source, m.Target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", m.Source, m.Target, err)
	}
	if err := unix.Mount("", m.Target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("making %s read-only: %w", m.Target, err)
	}
	return nil
}

func (m Mount) unmount() error {
	err := unix.Unmount(m.Target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // not mounted
	}
	return err
}

func isSameDirectory(source, target string) (bool, error) {
	var a, b unix.Stat_t
	if err := unix.Stat(source, &a); err != nil {
		return false, err
	}
	if err := unix.Stat(target, &b); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return false, nil
		}
		return false, err
	}
	return a.Dev == b.Dev && a.Ino == b.Ino, nil
}

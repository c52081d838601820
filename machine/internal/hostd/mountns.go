package hostd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// hostd runs in its own mount namespace, so that guests' disks are mounted nowhere else; the gofers' mounts are slaves
// of it. The next hostd needs this namespace for running sandboxes' disks. So a bind mount on <run_dir>/mnt/ns, in
// hostd's initial namespace, pins it.

// HoldCommand makes this binary wait in a new mount namespace until its input ends.
const HoldCommand = "hold-mount-namespace"

const insideVariable = "BERTH_HOSTD_MOUNT_NAMESPACE"

// EnterMountNamespace returns nil if the process is inside the namespace. Outside, it executes this program again
// inside, and returns only an error.
func EnterMountNamespace(runDir string) error {
	pin := pinPath(runDir)
	if inside, err := isInside(); err != nil || inside {
		return err
	}
	pinned, err := isPinned(pin)
	if err != nil {
		return err
	}
	if !pinned {
		if err := makeNamespace(pin); err != nil {
			return fmt.Errorf("making a mount namespace: %w", err)
		}
	}
	return enter(pin, os.Args)
}

// Unpin must be called from outside the namespace. The namespace's mounts disappear with its last process.
func Unpin(runDir string) error {
	pin := pinPath(runDir)
	for _, point := range []string{pin, filepath.Dir(pin)} {
		err := unix.Unmount(point, unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return os.RemoveAll(filepath.Dir(pin))
}

func pinPath(runDir string) string { return filepath.Join(runDir, "mnt", "ns") }

func isPinned(pin string) (bool, error) {
	var stat unix.Statfs_t
	err := unix.Statfs(pin, &stat)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil && stat.Type == unix.NSFS_MAGIC, err
}

func makeNamespace(pin string) error {
	dir := filepath.Dir(pin)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The pin's mount must not propagate to the new namespace: there it would be a loop, which the kernel refuses.
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := os.WriteFile(pin, nil, 0o600); err != nil {
		return err
	}
	return onEachProcessor(func() error { return pinFresh(pin) })
}

// The kernel pins a mount namespace only in a namespace with a lower number, to prevent loops. Since Linux 6.18 each
// processor has its own batch of numbers, so a new namespace can get a lower number than this process's. On the
// processor that made this process's namespace, a new number is always higher. So each processor is tried.
func onEachProcessor(do func() error) error {
	err := do()
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if wrong := unix.SchedGetaffinity(0, &before); wrong != nil {
		return errors.Join(err, wrong)
	}
	defer unix.SchedSetaffinity(0, &before)
	for processor := range len(one) * strconv.IntSize {
		one.Zero()
		one.Set(processor)
		if unix.SchedSetaffinity(0, &one) != nil {
			continue
		}
		if err = do(); !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return err
}

// pinFresh starts a child process that holds the new namespace open until it is pinned.
func pinFresh(pin string) error {
	holder := exec.Command("/proc/self/exe", HoldCommand)
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	holder.Stderr = os.Stderr
	input, err := holder.StdinPipe()
	if err != nil {
		return err
	}
	output, err := holder.StdoutPipe()
	if err != nil {
		return err
	}
	if err := holder.Start(); err != nil {
		return err
	}
	defer holder.Wait()
	defer input.Close()
	if _, err := bufio.NewReader(output).ReadByte(); err != nil {
		return fmt.Errorf("the holder of the new namespace: %w", err)
	}
	return unix.Mount(fmt.Sprintf("/proc/%d/ns/mnt", holder.Process.Pid), pin, "", unix.MS_BIND, "")
}

// Hold implements HoldCommand. Slave propagation brings mounts into the namespace, but none out.
func Hold() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// isInside trusts the variable only if it names this process's namespace.
func isInside() (bool, error) {
	told, ok := os.LookupEnv(insideVariable)
	if !ok {
		return false, nil
	}
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/ns/mnt", &stat); err != nil {
		return false, err
	}
	if told != strconv.FormatUint(stat.Ino, 10) {
		return false, fmt.Errorf("%s is hostd's own and must not be set", insideVariable)
	}
	return true, os.Unsetenv(insideVariable)
}

// enter executes the program again, because the other threads of a Go process cannot change their mount namespace.
func enter(pin string, args []string) error {
	runtime.LockOSThread()
	directory, err := os.Getwd() // read before setns, which changes to the namespace's root
	if err != nil {
		return err
	}
	fd, err := unix.Open(pin, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var stat unix.Stat_t
	if err := errors.Join(unix.Fstat(fd, &stat), unix.Unshare(unix.CLONE_FS)); err != nil {
		return err
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering %s: %w", pin, err)
	}
	if err := unix.Chdir(directory); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", args, append(os.Environ(), insideVariable+"="+strconv.FormatUint(stat.Ino, 10)))
}

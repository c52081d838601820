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

// hostd lives in a mount namespace of its own: guests' disks are mounted nowhere else, and the gofers' mounts are slaves of its
// mounts. The namespace has to survive hostd, or its successor could neither give a waiting slot a disk nor unmount one, so it is
// pinned by a bind mount on <run_dir>/mnt/ns, in the namespace that hostd was started in.

// HoldCommand is the argument that makes this binary wait in a fresh mount namespace until its input ends.
const HoldCommand = "hold-mount-namespace"

const insideVariable = "BERTH_HOSTD_MOUNT_NAMESPACE"

// EnterMountNamespace returns when the process is inside. Outside it makes or finds the namespace, enters it and executes this
// program again, so it does not return then.
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

// Unpin gives the namespace up; what is still mounted in it goes when its last process ends. To be called from outside it.
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
	// The mount that carries the pin must not propagate: into the new namespace itself would be a loop, which the kernel refuses.
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

// onEachProcessor runs do until it answers something else than EINVAL: where the thread is first, then on each processor in turn.
//
// To keep pins from forming loops the kernel pins a mount namespace only in one with a lower number. Since Linux 6.18 each processor
// hands out numbers of a batch of its own, so a namespace that is made later on another processor may have a lower number. On the
// processor that this process's own namespace was made on it is always higher.
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
			continue // there is none of this number, or it is not ours to use
		}
		if err = do(); !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return err
}

// pinFresh pins a namespace that a child has begun with; the child is only needed until then.
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

// Hold is what HoldCommand does. Mounts of the host still come in (and, what matters, unmounts do), nothing goes out.
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

// isInside believes the variable only when it names the namespace this process is in.
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

// enter moves this thread into the namespace and executes the program anew from it: the other threads of a Go process cannot follow.
func enter(pin string, args []string) error {
	runtime.LockOSThread()
	directory, err := os.Getwd() // the new namespace begins at its root
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

// Package jail confines processes that read guests' data. hostd starts the disk reader in its own namespaces; the
// reader leaves the host's root, and may only read and search, regardless of file modes.
package jail

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// nobody is the uid and gid of a user who owns nothing, even outside of the jail.
const nobody = 65534

const openFilesMax = 2048

// EnterDisk makes the mounted disk behind fd the root; the host's files become unreachable.
func EnterDisk(fd int, mountPoint string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, mountPoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mounting the disk: %w", err)
	}
	if err := unix.Close(fd); err != nil {
		return err
	}
	if err := unix.Chdir(mountPoint); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return mountPlaceholders()
}

// mountPlaceholders mounts each directory of a machine's memory on itself, so that the kernel recognizes paths into
// it. A link is older than the first machine and leads to the disk, so it is skipped.
func mountPlaceholders() error {
	for _, name := range wire.InMemory {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if err := unix.Mount(name, name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("standing in for /%s: %w", name, err)
		}
	}
	return nil
}

// GiveUpRights gives up all rights for good, except CAP_DAC_READ_SEARCH in the user namespace, and the calls that
// serve files.
func GiveUpRights() error {
	for resource, bound := range map[int]uint64{unix.RLIMIT_FSIZE: 0, unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 0, unix.RLIMIT_NOFILE: openFilesMax} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: bound, Max: bound}); err != nil {
			return fmt.Errorf("limit %d: %w", resource, err)
		}
	}
	if err := dropBoundingSet(); err != nil {
		return err
	}
	if err := cmp.Or(
		everyThread(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0),
		syscall.Setgroups(nil), syscall.Setresgid(nobody, nobody, nobody), syscall.Setresuid(nobody, nobody, nobody),
		keepReading(),
		everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0),
		everyThread(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0),
		// The change of user cleared the signal that hostd had set, so it is set again.
		everyThread(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0),
	); err != nil {
		return fmt.Errorf("giving up rights: %w", err)
	}
	return filterCalls(calls)
}

// OnlyNetwork gives up all calls for good, except those of network clients and servers, and those that read in open
// directories.
func OnlyNetwork(openFiles uint64) error {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	openFiles = min(openFiles, files.Max)
	for resource, bound := range map[int]uint64{unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 0, unix.RLIMIT_NOFILE: openFiles} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: bound, Max: bound}); err != nil {
			return fmt.Errorf("limit %d: %w", resource, err)
		}
	}
	// One thread is enough: TSYNC copies no_new_privs to all threads, and dumpable is per process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, option := range [][2]uintptr{{unix.PR_SET_NO_NEW_PRIVS, 1}, {unix.PR_SET_DUMPABLE, 0}} {
		if err := unix.Prctl(int(option[0]), option[1], 0, 0, 0); err != nil {
			return fmt.Errorf("giving up rights: %w", err)
		}
	}
	return filterCalls(slices.Concat(calls, networkCalls))
}

func dropBoundingSet() error {
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		if capability == unix.CAP_DAC_READ_SEARCH {
			continue
		}
		// An older kernel returns EINVAL for a capability that it does not have.
		if err := everyThread(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("capability %d: %w", capability, err)
		}
	}
	return nil
}

func keepReading() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	const reading = 1 << unix.CAP_DAC_READ_SEARCH
	data := [2]unix.CapUserData{{Effective: reading, Permitted: reading}}
	return everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
}

// everyThread makes the call in all threads. Later threads inherit the setting.
func everyThread(call, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}

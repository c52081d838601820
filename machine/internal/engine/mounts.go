package engine

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/mountpoints"
)

// shareSelf binds a directory onto itself, read-only and shared. Later mounts below it appear, with their own permissions, in every slave
// namespace, such as the gofer's.
func shareSelf(dir string) error {
	if err := bindReadOnly(dir, dir); err != nil {
		return err
	}
	return share(dir)
}

func share(dir string) error {
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share %s: %w", dir, err)
	}
	return nil
}

// mountEmpty makes a directory the shared, read-only base of later mounts. It is its own file system and read-only as a whole before any
// other process sees it, so no descriptor of it permits writes.
func mountEmpty(dir string, fill func(dir string) error) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "mode=755,size=4096"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := fill(dir); err != nil {
		return err
	}
	if err := sealEmpty(dir, flags); err != nil {
		return fmt.Errorf("seal %s: %w", dir, err)
	}
	return share(dir)
}

// sealEmpty makes the file system of a directory read-only. The kernel refuses that while a descriptor may write to it. A process that
// another goroutine forked while the directory was filled has such a descriptor until its exec.
func sealEmpty(dir string, flags uintptr) error {
	for pause := time.Millisecond; ; pause *= 2 {
		err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|flags, "mode=755,size=4096")
		if !errors.Is(err, unix.EBUSY) || pause > sealPauseMax {
			return err
		}
		time.Sleep(pause)
	}
}

const sealPauseMax = 512 * time.Millisecond

// bindReadOnly bind-mounts a directory read-only. It sets read-only before attaching the mount, because copies in other namespaces keep
// the permissions that it has then.
func bindReadOnly(source, target string) error {
	return bindWith(source, target, unix.MOUNT_ATTR_RDONLY)
}

func bindWith(source, target string, attributes uint64) error {
	tree, err := cloneMount(source, unix.MountAttr{Attr_set: attributes})
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}

// cloneMount returns a descriptor of a detached mount of the same files.
func cloneMount(source string, attributes unix.MountAttr) (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open_tree %s: %w", source, err)
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attributes); err != nil {
		return -1, errors.Join(fmt.Errorf("mount_setattr %s: %w", source, err), unix.Close(tree))
	}
	return tree, nil
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}

// UnmountBelow unmounts everything at or below a path, the last first. It is no error if nothing is mounted.
func UnmountBelow(path string) error {
	points, err := MountsBelow(path)
	if err != nil {
		return err
	}
	for i := len(points) - 1; i >= 0; i-- {
		if err := unmount(points[i]); err != nil {
			return fmt.Errorf("unmount %s: %w", points[i], err)
		}
	}
	return nil
}

// unmount is not lazy at first: after a normal unmount the disk is written and free. A mount that stays busy, as of an ending sandbox, is
// detached after a second, so that the machine can be removed.
func unmount(point string) error {
	for attempt := 0; attempt < 50; attempt++ {
		err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
		if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
}

// MountsBelow lists the mount points at or below a path in this thread's mount namespace, parents before children.
func MountsBelow(path string) ([]string, error) {
	file, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := mountpoints.Read(file)
	var points []string
	for _, point := range all {
		if point == path || strings.HasPrefix(point, strings.TrimSuffix(path, "/")+"/") {
			points = append(points, point)
		}
	}
	sort.SliceStable(points, func(i, j int) bool { return strings.Count(points[i], "/") < strings.Count(points[j], "/") })
	return points, err
}

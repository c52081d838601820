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

// shareSelf makes a read-only mount. Later submounts propagate to slave namespaces with their own permissions.
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

// mountEmpty makes the file system read-only before another process sees it, so no process has a writable descriptor.
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

// The kernel refuses while a descriptor is writable. A process forked in between has one until its exec; so retry.
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

// bindReadOnly sets the permissions before it attaches the mount, because copies in other namespaces keep the
// permissions of that moment.
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

// UnmountBelow unmounts everything at or below the path; nothing mounted is no error.
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

// A normal unmount leaves the disk written and unused, so unmount tries it first. A mount that is busy for a second,
// such as that of an ending sandbox, is detached.
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

// MountsBelow lists the mounts of this thread's namespace, parents before children.
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

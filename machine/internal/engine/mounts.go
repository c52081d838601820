package engine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// shareSelf binds a directory onto itself, read-only, and makes it a shared mount: what is mounted below it later appears, with rights
// of its own, in every namespace that took a slave of it, the gofer's for one.
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

// mountEmpty makes a directory the shared, read-only base of what is mounted below it later. It is a file system of its own, and that
// is read-only as a whole from before anybody else sees it: whoever holds a descriptor of it, with whatever rights, cannot write.
func mountEmpty(dir string, fill func(dir string) error) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "mode=755,size=4096"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := fill(dir); err != nil {
		return err
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|flags, "mode=755,size=4096"); err != nil {
		return fmt.Errorf("seal %s: %w", dir, err)
	}
	return share(dir)
}

// bindReadOnly mounts a directory at another place where nobody can write to it. The mount is read-only before it is attached: copies
// of it in other namespaces keep the rights that it comes with.
func bindReadOnly(source, target string) error {
	return bindWith(source, target, unix.MOUNT_ATTR_RDONLY)
}

func bindWith(source, target string, attributes uint64) error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open_tree %s: %w", source, err)
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("mount_setattr %s: %w", source, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}

// bind mounts a directory at another place. No device of a guest's disk is ever usable on the host.
func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	return nil
}

// UnmountBelow unmounts everything at or below a path, the last first. Nothing there is not an error.
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

// unmount is not lazy at first: a disk whose unmount returned is written and free. A mount that stays busy (a sandbox that is
// just ending) is detached after a second, since a machine that cannot be removed would be worse.
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
	var points []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 64<<10), 1<<20)
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescapeMount(fields[4])
		if point == path || strings.HasPrefix(point, strings.TrimSuffix(path, "/")+"/") {
			points = append(points, point)
		}
	}
	sort.SliceStable(points, func(i, j int) bool { return strings.Count(points[i], "/") < strings.Count(points[j], "/") })
	return points, scanner.Err()
}

// unescapeMount undoes mountinfo's octal escapes of blanks and backslashes.
func unescapeMount(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		plain.WriteByte(text[i])
	}
	return plain.String()
}

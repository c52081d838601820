package pool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/berth-dev/berth/machine/internal/loopdev"
	"golang.org/x/sys/unix"
)

const (
	hostMarginBytes = 128 << 20  // bytes that must be free on the host's file system after a new image
	imageMinBytes   = 256 << 20  // mkfs.btrfs refuses less than about 110 MiB
	fsNoCow         = 0x00800000 // FS_NOCOW_FL of linux/fs.h
)

// createImage allocates every byte. A sparse file could not grow on a full host, and the pool would become read-only.
func createImage(ctx context.Context, c Config) error {
	if c.SizeBytes < imageMinBytes {
		return fmt.Errorf("a pool needs %d MiB at least, not %d: %w", imageMinBytes>>20, c.SizeBytes>>20, unix.EINVAL)
	}
	if err := checkRoom(filepath.Dir(c.Image), c.SizeBytes); err != nil {
		return err
	}
	fresh := c.Image + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := allocate(fresh, c.SizeBytes)
	if err == nil {
		err = makeFilesystem(ctx, fresh)
	}
	if err == nil {
		err = os.Rename(fresh, c.Image)
	}
	if err != nil {
		os.Remove(fresh)
		return fmt.Errorf("create the pool image %s: %w", c.Image, err)
	}
	return SyncDir(filepath.Dir(c.Image))
}

func checkRoom(dir string, size int64) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if free := int64(stat.Bavail) * stat.Bsize; free < size+hostMarginBytes {
		return fmt.Errorf("the pool image needs %d MiB in %s (and %d MiB beside it), but only %d MiB are free: "+
			"free some, or set a smaller pool: %w", size>>20, dir, hostMarginBytes>>20, free>>20, unix.ENOSPC)
	}
	return nil
}

func allocate(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	// Preallocation needs in-place writes, so copy-on-write is disabled. Other file systems refuse the flag.
	if flags, err := unix.IoctlGetInt(int(file.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
		_ = unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags|fsNoCow)
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil {
		return fmt.Errorf("fallocate %d bytes: %w", size, err)
	}
	return file.Sync()
}

// mkfs must not discard: that would punch holes into the preallocated file.
func makeFilesystem(ctx context.Context, path string) error {
	output, err := exec.CommandContext(ctx, "mkfs.btrfs", "--quiet", "--nodiscard", "--label", "berth", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.btrfs (package btrfs-progs): %w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// mountImage disables discards, which btrfs enables by default on a loop device.
func mountImage(c Config) error {
	device, err := loopdev.Attach(c.Image, false)
	if err != nil {
		return fmt.Errorf("attach the pool image %s: %w", c.Image, err)
	}
	defer device.Close()
	flags := uintptr(unix.MS_NOATIME | unix.MS_NODEV | unix.MS_NOSUID)
	if err := unix.Mount(device.Name(), c.Mount, "btrfs", flags, "nodiscard"); err != nil {
		return fmt.Errorf("mount %s at %s: %w", device.Name(), c.Mount, err)
	}
	return nil
}

// mountedFrom reports whether this image is mounted there. It is, after a restart in the same mount namespace.
func mountedFrom(mount, image string) (bool, error) {
	source, err := mountSource(mount)
	if err != nil || source == "" {
		return false, err
	}
	if _, err := os.Stat(image); err != nil {
		return false, fmt.Errorf("%s is mounted at %s but the pool image is not there: %w", source, mount, err)
	}
	device, err := loopdev.Find(image, false)
	if err != nil {
		return false, err
	}
	if device == nil {
		return false, fmt.Errorf("%s is mounted at %s, which is not the pool image %s", source, mount, image)
	}
	defer device.Close()
	if device.Name() != source {
		return false, fmt.Errorf("%s is mounted at %s, the pool image %s is on %s", source, mount, image, device.Name())
	}
	return true, nil
}

func mountSource(mount string) (string, error) {
	real, err := filepath.EvalSymlinks(mount)
	if err != nil {
		return "", err
	}
	file, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return "", err
	}
	defer file.Close()
	source := ""
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) > 4 && len(tail) > 1 && unescape.Replace(head[4]) == real {
			source = tail[1]
		}
	}
	return source, lines.Err()
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

package layers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-dev/berth/machine/internal/pool"
	"golang.org/x/sys/unix"
)

// ErrTwoSubvolumes is explained at checkSubvolumes.
var ErrTwoSubvolumes = errors.New("an overlay of two subvolumes of one btrfs gives different files one inode number")

const optionsMax = 4095 // mount(2) copies one page of options

// Overlay mounts lower directories, topmost first, under <diskPath>/upper.
//
//   - redirect_dir=on: without it, renaming a template's directory fails with EXDEV, which breaks real programs;
//   - xino=off: xino moves inode numbers past 2^63, where JavaScript's doubles make different files look alike;
//   - index and metacopy off: both forbid that a disk is snapshotted, moved and read on its own.
//
// Never userxattr: the guest could set user.* attributes, and so forge whiteouts and redirects.
func Overlay(lower []string, diskPath, target string) error {
	if len(lower) == 0 {
		return fmt.Errorf("an overlay needs a lower directory: %w", unix.EINVAL)
	}
	upper, work := filepath.Join(diskPath, "upper"), filepath.Join(diskPath, "work")
	if err := checkSubvolumes(append([]string{upper}, lower...)); err != nil {
		return err
	}
	options := fmt.Sprintf("upperdir=%s,workdir=%s,redirect_dir=on,xino=off,index=off,metacopy=off,nfs_export=off", escape.Replace(upper), escape.Replace(work))
	// nodev and nosuid protect the host. They do not restrict the guest, because its own kernel does not see them.
	if err := mountOverlay(lower, target, unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOATIME, options); err != nil {
		return err
	}
	return refuseReadOnly(target)
}

// ErrReadOnly means that the kernel mounted the overlay read-only, because there was no space for the work directory.
// In such an overlay a guest could not even delete files.
var ErrReadOnly = errors.New("the overlay came up read-only")

func refuseReadOnly(target string) error {
	var mounted unix.Statfs_t
	if err := unix.Statfs(target, &mounted); err != nil {
		return &os.PathError{Op: "statfs", Path: target, Err: err}
	}
	if mounted.Flags&unix.ST_RDONLY == 0 {
		return nil
	}
	return errors.Join(fmt.Errorf("%s: %w: %w", target, ErrReadOnly, unix.EDQUOT), unix.Unmount(target, unix.UMOUNT_NOFOLLOW))
}

// View mounts a template's directories read-only.
func View(lower []string, target string) error {
	if len(lower) == 1 {
		if err := unix.Mount(lower[0], target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", target, err)
		}
		return nil
	}
	return mountOverlay(lower, target, unix.MS_RDONLY|unix.MS_NODEV|unix.MS_NOSUID|unix.MS_NOATIME, "redirect_dir=follow,xino=off")
}

// ReadOnly mounts a read-only overlay of at least two directories, topmost first.
func ReadOnly(lower []string, target string) error {
	if err := checkSubvolumes(lower); err != nil {
		return err
	}
	flags := uintptr(unix.MS_RDONLY | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOEXEC | unix.MS_NOATIME)
	return mountOverlay(lower, target, flags, "redirect_dir=follow,xino=off,index=off,metacopy=off,nfs_export=off")
}

func mountOverlay(lower []string, target string, flags uintptr, others string) error {
	escaped := make([]string, len(lower))
	for i, dir := range lower {
		escaped[i] = escape.Replace(dir)
	}
	options := fmt.Sprintf("lowerdir=%s,%s", strings.Join(escaped, ":"), others)
	if len(options) > optionsMax {
		return fmt.Errorf("%d layers make %d bytes of mount options, %d at most: %w", len(lower), len(options), optionsMax, unix.E2BIG)
	}
	if err := unix.Mount("berth", target, "overlay", flags, options); err != nil {
		return fmt.Errorf("mount overlay at %s (%s): %w", target, options, err)
	}
	return nil
}

var escape = strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`)

// overlayfs shows the inode numbers of all layers under one device, and subvolumes of one btrfs reuse numbers. gVisor
// treats equal device and inode as one file, which would corrupt the guest's data. So two subvolumes are refused.
func checkSubvolumes(dirs []string) error {
	devices := map[string]uint64{}
	for _, dir := range dirs {
		id, device, err := btrfsOf(dir)
		if err != nil {
			return fmt.Errorf("layer %s: %w", dir, err)
		}
		if id == "" {
			continue
		}
		if first, ok := devices[id]; ok && first != device {
			return fmt.Errorf("%s: %w", strings.Join(dirs, ", "), ErrTwoSubvolumes)
		}
		devices[id] = device
	}
	return nil
}

func btrfsOf(dir string) (id string, device uint64, err error) {
	file, err := os.Open(dir)
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil || int64(fs.Type) != unix.BTRFS_SUPER_MAGIC {
		return "", 0, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return "", 0, err
	}
	id, err = pool.FilesystemID(file)
	return id, stat.Dev, err
}

package identity

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// MountPoints makes directories for mounts, and replaces links, which would redirect a mount. No guest process may
// run yet.
func MountPoints(claimRoot string, names []string) error {
	root, err := unix.Open(claimRoot, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: claimRoot, Err: err}
	}
	defer unix.Close(root)
	for _, name := range names {
		if err := mountPoint(root, name); err != nil {
			return fmt.Errorf("mount point /%s: %w", name, err)
		}
	}
	return nil
}

func mountPoint(root int, name string) error {
	var st unix.Stat_t
	err := unix.Fstatat(root, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	if err == nil {
		err = unix.Unlinkat(root, name, 0)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return unix.Mkdirat(root, name, 0o755)
}

package hostd

import (
	"encoding/hex"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BTRFS_IOC_GET_SUBVOL_INFO, _IOR(0x94, 60, btrfs_ioctl_get_subvol_info_args).
const (
	getSubvolumeInfo   = 0x81f8943c
	subvolumeInfoBytes = 504
	subvolumeUUIDAt    = 8 + 256 + 8 + 8 + 8 + 8 // treeid, name[256], parent_id, dirid, generation, flags
)

func subvolumeUUID(path string) (string, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	var info [subvolumeInfoBytes]byte
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), getSubvolumeInfo, uintptr(unsafe.Pointer(&info)))
	if errno != 0 {
		return "", &os.PathError{Op: "subvolume of", Path: path, Err: errno}
	}
	return hex.EncodeToString(info[subvolumeUUIDAt : subvolumeUUIDAt+16]), nil
}

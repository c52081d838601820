package pool

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These values are from linux/btrfs.h. The numbers are _IOC(direction, 0x94, nr, size).
const (
	iocSnapDestroy   = 0x5000940f // _IOW 15, vol_args
	iocTreeSearch    = 0xd0009411 // _IOWR 17, 4096 bytes
	iocTreeSearchV2  = 0xc0709411 // _IOWR 17, 112 bytes and the buffer after them
	iocInodeLookup   = 0xd0009412 // _IOWR 18, 4096 bytes
	iocWaitSync      = 0x40089416 // _IOW 22, 8 bytes
	iocSnapCreateV2  = 0x50009417 // _IOW 23, vol_args_v2
	iocSubvolCreate2 = 0x50009418 // _IOW 24, vol_args_v2
	iocStartSync     = 0x80089418 // _IOR 24, 8 bytes
	iocFsInfo        = 0x8400941f // _IOR 31, 1024 bytes
	iocQuotaCtl      = 0xc0109428 // _IOWR 40, 16 bytes
	iocQgroupCreate  = 0x4010942a // _IOW 42, 16 bytes
	iocQgroupLimit   = 0x8030942b // _IOR 43, 48 bytes

	subvolReadOnly     = 1 << 1
	subvolInherit      = 1 << 2
	quotaEnable        = 1
	quotaEnableSimple  = 4
	limitMaxReferenced = 1 << 0
	subvolInode        = 256 // the root directory of every subvolume
	nameMax            = 255
	rootTree           = 1 // the tree of all subvolumes
	rootItemKey        = 132
)

type volArgs struct {
	fd   int64
	name [4088]byte
}

type volArgsV2 struct {
	fd      int64
	transid uint64
	flags   uint64
	size    uint64
	inherit unsafe.Pointer
	unused  [2]uint64
	name    [4040]byte
}

type qgroupLimit struct {
	flags, maxReferenced, maxExclusive, reservedReferenced, reservedExclusive uint64
}

type qgroupInherit struct {
	flags, count, refCopies, exclCopies uint64
	limit                               qgroupLimit
	group                               [1]uint64
}

func ioctl(file *os.File, request uintptr, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(argument))
	runtime.KeepAlive(file)
	if errno != 0 {
		return errno
	}
	return nil
}

func createSubvolume(parent, source *os.File, name string, group uint64, readOnly bool) error {
	if len(name) > nameMax {
		return unix.ENAMETOOLONG
	}
	inherit := &qgroupInherit{count: 1, group: [1]uint64{group}}
	args := &volArgsV2{flags: subvolInherit, size: uint64(unsafe.Sizeof(*inherit)), inherit: unsafe.Pointer(inherit)}
	copy(args.name[:], name)
	request := uintptr(iocSubvolCreate2)
	if source != nil {
		request, args.fd = iocSnapCreateV2, int64(source.Fd())
	}
	if readOnly {
		args.flags |= subvolReadOnly
	}
	var pinner runtime.Pinner // the kernel follows the pointer inside args, so its target must not move
	pinner.Pin(inherit)
	defer pinner.Unpin()
	err := ioctl(parent, request, unsafe.Pointer(args))
	runtime.KeepAlive(source)
	return err
}

func destroySubvolume(parent *os.File, name string) error {
	if len(name) > nameMax {
		return unix.ENAMETOOLONG
	}
	args := &volArgs{}
	copy(args.name[:], name)
	return ioctl(parent, iocSnapDestroy, unsafe.Pointer(args))
}

func quotaCtl(root *os.File, command uint64) error {
	args := &[2]uint64{command, 0}
	return ioctl(root, iocQuotaCtl, unsafe.Pointer(args))
}

func createGroup(root *os.File, group uint64) error {
	args := &[2]uint64{1, group}
	return ioctl(root, iocQgroupCreate, unsafe.Pointer(args))
}

func removeGroup(root *os.File, group uint64) error {
	args := &[2]uint64{0, group}
	return ioctl(root, iocQgroupCreate, unsafe.Pointer(args))
}

func limitGroup(root *os.File, group, bytes uint64) error {
	args := &struct {
		group uint64
		limit qgroupLimit
	}{group, qgroupLimit{flags: limitMaxReferenced, maxReferenced: bytes}}
	return ioctl(root, iocQgroupLimit, unsafe.Pointer(args))
}

// FilesystemID is the same for all subvolumes of a btrfs, unlike stat's device number and statfs's fsid.
func FilesystemID(file *os.File) (string, error) {
	args := &[1024]byte{}
	if err := ioctl(file, iocFsInfo, unsafe.Pointer(args)); err != nil {
		return "", err
	}
	id := args[16:32]
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]), nil
}

// subvolumeExists is true for a deleted subvolume, too, until the kernel has cleaned it up.
func subvolumeExists(root *os.File, id uint64) (bool, error) {
	args := &struct {
		tree                 uint64
		minObject, maxObject uint64
		minOffset, maxOffset uint64
		minTransaction, maxT uint64
		minType, maxType     uint32
		items, unused        uint32
		unused2              [4]uint64
		buffer               [4096 - 104]byte
	}{tree: rootTree, minObject: id, maxObject: id, maxOffset: math.MaxUint64, maxT: math.MaxUint64,
		minType: rootItemKey, maxType: rootItemKey, items: 1}
	if err := ioctl(root, iocTreeSearch, unsafe.Pointer(args)); err != nil {
		return false, err
	}
	return args.items > 0, nil
}

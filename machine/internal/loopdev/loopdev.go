// Package loopdev attaches files to loop devices. A device detaches with its last user, so the package stores no list
// of devices.
package loopdev

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const attachTries = 16 // another process may take the free device in between

// Attach returns an open device, which the caller keeps open until it is mounted; otherwise the device detaches. A file
// that has a device gets no second one, because the two would have inconsistent caches.
func Attach(path string, readOnly bool) (*os.File, error) {
	backing, err := openBacking(path, readOnly)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	if device, err := Find(path, readOnly); err != nil || device != nil {
		return device, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("loop devices are not available: %w", err)
	}
	defer control.Close()
	for range attachTries {
		device, err := configureFree(control, backing, readOnly)
		if !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
	return nil, fmt.Errorf("no loop device became free in %d tries", attachTries)
}

func configureFree(control, backing *os.File, readOnly bool) (*os.File, error) {
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, fmt.Errorf("ask for a free loop device: %w", err)
	}
	device, err := openDevice(number, readOnly)
	if err != nil {
		return nil, err
	}
	if err := configure(device, backing, readOnly); err != nil {
		device.Close()
		return nil, err
	}
	return device, nil
}

// configure uses direct I/O. Without it the kernel caches pages twice, and a flush of the pool waits for the whole host
// file system.
func configure(device, backing *os.File, readOnly bool) error {
	flags := uint32(unix.LO_FLAGS_AUTOCLEAR)
	if readOnly {
		flags |= unix.LO_FLAGS_READ_ONLY
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: 4096}
	config.Info.Flags = flags | unix.LO_FLAGS_DIRECT_IO
	copy(config.Info.File_name[:63], backing.Name())
	err := unix.IoctlLoopConfigure(int(device.Fd()), &config)
	if err != nil && !errors.Is(err, unix.EBUSY) { // tried again without direct I/O, which the file system may not support
		config.Info.Flags = flags
		config.Size = 0
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
	}
	if err != nil {
		return fmt.Errorf("configure %s: %w", device.Name(), err)
	}
	return nil
}

// Find finds a file's device by device and inode numbers, because its name may differ between mount namespaces.
func Find(path string, readOnly bool) (*os.File, error) {
	var want unix.Stat_t
	if err := unix.Stat(path, &want); err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	entries, err := os.ReadDir("/sys/block")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		var number int
		if _, err := fmt.Sscanf(entry.Name(), "loop%d", &number); err != nil || !inUse(number) {
			continue
		}
		device, err := openDevice(number, readOnly)
		if err != nil {
			continue // it was detached since the directory was read
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		if err == nil && info.Inode == want.Ino && sameDevice(info.Device, want.Dev) {
			return device, nil
		}
		device.Close()
	}
	return nil, nil
}

// The loop driver's encoding of device numbers (huge_encode_dev) equals that of userspace for all numbers in use.
func sameDevice(loop, stat uint64) bool {
	return loop == stat || (unix.Major(loop) == unix.Major(stat) && unix.Minor(loop) == unix.Minor(stat))
}

func inUse(number int) bool {
	_, err := os.Stat(fmt.Sprintf("/sys/block/loop%d/loop", number))
	return err == nil
}

func openBacking(path string, readOnly bool) (*os.File, error) {
	if readOnly {
		return os.Open(path)
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// openDevice makes a missing device file, because in most containers the kernel does not manage /dev.
func openDevice(number int, readOnly bool) (*os.File, error) {
	path := fmt.Sprintf("/dev/loop%d", number)
	mode := os.O_RDWR
	if readOnly {
		mode = os.O_RDONLY
	}
	device, err := os.OpenFile(path, mode|unix.O_CLOEXEC, 0)
	if errors.Is(err, os.ErrNotExist) {
		if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(number)))); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
		device, err = os.OpenFile(path, mode|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return device, nil
}

// Package pty runs terminals, each id once, with output outside of the guest's tree.
package pty

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// device has the replica open, because a program may close all its descriptors and open the terminal again.
type device struct {
	master  *os.File // non-blocking, so that close wakes readers and writers
	replica int
}

// openDevice makes uid the terminal's owner, so that programs of uid can open it by name, as after a login.
func openDevice(uid uint32, size wire.PtySize) (*device, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/ptmx: %w", err)
	}
	d := &device{master: os.NewFile(uintptr(fd), "terminal"), replica: -1}
	if err := d.prepare(fd, uid, size); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *device) prepare(fd int, uid uint32, size wire.PtySize) (err error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("unlocking the terminal: %w", err)
	}
	// The replica is opened by the master's descriptor, because the guest can replace the name.
	replica, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return fmt.Errorf("opening the terminal: %w", errno)
	}
	d.replica = int(replica)
	if err := unix.Fchown(d.replica, int(uid), -1); err != nil {
		return fmt.Errorf("giving the terminal to its user: %w", err)
	}
	return d.resize(size)
}

func (d *device) resize(size wire.PtySize) error {
	raw, err := d.master.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: size.Cols, Row: size.Rows})
	})
	if err != nil {
		return err
	}
	return failed
}

func (d *device) drain(buffer []byte, limit int, sink func([]byte)) {
	raw, err := d.master.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for total := 0; total < limit; {
			n, err := unix.Read(int(fd), buffer)
			if err == unix.EINTR {
				continue
			}
			if n <= 0 {
				return
			}
			sink(buffer[:n])
			total += n
		}
	})
}

func (d *device) close() {
	d.master.Close()
	if d.replica >= 0 {
		unix.Close(d.replica)
	}
}

package guest

import (
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
)

// Nearly every first command reads these files, so Warm loads them in advance.
var touched = []string{
	"/etc/ld.so.cache", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
	"/bin/true", "/bin/sh", "/bin/bash", "/home/user",
}

// Warm loads files into the sandbox's memory. It runs no program of the guest.
func (g *Guest) Warm() {
	root, err := g.Root()
	if err != nil {
		return
	}
	defer root.Release()
	g.users.Find(root, "user")
	for _, path := range touched {
		warm(root, path)
	}
}

func warm(root *guestroot.Root, path string) {
	fd, err := root.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	var page [4096]byte
	_, _ = unix.Read(fd, page[:]) // fails for a directory, which open has already loaded
	unix.Close(fd)
}

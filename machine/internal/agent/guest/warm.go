package guest

import (
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
)

// touched is what nearly every first command looks at. A program has its loader and C library in one of these places.
var touched = []string{
	"/etc/ld.so.cache", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
	"/bin/true", "/bin/sh", "/bin/bash", "/home/user",
}

// Warm reads what the first command will, so that it is in the sandbox's memory by then. Nothing of the guest runs for it.
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
	_, _ = unix.Read(fd, page[:]) // a directory refuses, and is known by then
	unix.Close(fd)
}

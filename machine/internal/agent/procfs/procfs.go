// Package procfs mounts /proc only while it is in use. A mounted /proc adds a hundred inodes to every saved image,
// which a restore recreates.
package procfs

import (
	"io"
	"log"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const directory = "/proc"

var (
	mu      sync.Mutex
	looking int  // readers at present
	ours    bool // mounted by this package
)

// UnmountInitial unmounts the /proc that the sandbox was created with.
func UnmountInitial() {
	mu.Lock()
	defer mu.Unlock()
	if !ours && isMounted() {
		unmount() // safe: current readers have /proc open
	}
}

// Visit calls visit for each process, the agent included. read fails once the process has ended.
func Visit(visit func(pid int, read func(file string) ([]byte, error))) {
	root, err := open()
	if err != nil {
		log.Printf("looking at processes: %v", err)
		return
	}
	defer closeRoot(root)
	names, _ := root.Readdirnames(-1) // on error, continue with the names read so far
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			visit(pid, func(file string) ([]byte, error) { return read(root, name+"/"+file) })
		}
	}
}

// Read passes a file of /proc to reader. Of a file that differs per process, such as net/tcp, reader gets the
// agent's.
func Read(path string, reader func(io.Reader) error) error {
	root, err := open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	fd, err := unix.Openat(int(root.Fd()), path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	return reader(file)
}

func open() (*os.File, error) {
	mu.Lock()
	defer mu.Unlock()
	if looking == 0 && !isMounted() {
		if err := unix.Mount("proc", directory, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return nil, &os.PathError{Op: "mount", Path: directory, Err: err}
		}
		ours = true
	}
	root, err := os.Open(directory)
	if err != nil {
		letGoOfOurs()
		return nil, err
	}
	looking++
	return root, nil
}

func closeRoot(root *os.File) {
	root.Close()
	mu.Lock()
	defer mu.Unlock()
	looking--
	letGoOfOurs()
}

func letGoOfOurs() {
	if looking == 0 && ours {
		ours = false
		unmount()
	}
}

func isMounted() bool {
	var st unix.Statfs_t
	return unix.Statfs(directory, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

func unmount() {
	if err := unix.Unmount(directory, unix.MNT_DETACH); err != nil {
		log.Printf("unmounting %s: %v", directory, err)
	}
}

func read(root *os.File, path string) ([]byte, error) {
	fd, err := unix.Openat(int(root.Fd()), path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	text := make([]byte, 4096) // longer than any file that callers read
	n, err := file.Read(text)
	return text[:n], err
}

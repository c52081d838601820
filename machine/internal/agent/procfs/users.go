package procfs

import (
	"bytes"
	"log"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const mapsBytesMax = 4 << 20 // limits the mappings read per process

// Users returns the processes with a file, mapping, root or working directory below one of paths. The kernel's names
// are compared, so the guest's root can hide a process by moving a mount.
func Users(paths []string) []int {
	root, err := open()
	if err != nil {
		log.Printf("looking at processes: %v", err)
		return nil
	}
	defer closeRoot(root)
	names, _ := root.Readdirnames(-1)
	var users []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err == nil && pid != os.Getpid() && uses(int(root.Fd()), name, paths) {
			users = append(users, pid)
		}
	}
	return users
}

func uses(root int, pid string, paths []string) bool {
	for _, link := range []string{"cwd", "root", "exe"} {
		if linkIsBelow(root, pid+"/"+link, paths) {
			return true
		}
	}
	fd, err := unix.Openat(root, pid+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	list := os.NewFile(uintptr(fd), pid)
	defer list.Close()
	for {
		names, err := list.Readdirnames(256)
		for _, name := range names {
			if linkIsBelow(root, pid+"/fd/"+name, paths) {
				return true
			}
		}
		if err != nil {
			return maps(root, pid, paths)
		}
	}
}

func linkIsBelow(root int, link string, paths []string) bool {
	target := make([]byte, 4096)
	n, err := unix.Readlinkat(root, link, target)
	return err == nil && isBelow(string(target[:n]), paths)
}

func isBelow(name string, paths []string) bool {
	for _, path := range paths {
		if name == path || strings.HasPrefix(name, path+"/") {
			return true
		}
	}
	return false
}

func maps(root int, pid string, paths []string) bool {
	fd, err := unix.Openat(root, pid+"/maps", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	file := os.NewFile(uintptr(fd), pid)
	defer file.Close()
	text := make([]byte, 0, 64<<10)
	for len(text) < mapsBytesMax {
		n, err := file.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		if err != nil || n == 0 {
			break
		}
		if len(text) == cap(text) {
			text = append(text, make([]byte, len(text))...)[:len(text)]
		}
	}
	for line := range bytes.Lines(text) {
		if at := bytes.IndexByte(line, '/'); at >= 0 && isBelow(strings.TrimSuffix(string(line[at:]), "\n"), paths) {
			return true
		}
	}
	return false
}

package main

import (
	"bufio"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

type Mount struct {
	Point string   `json:"point"`
	Type  string   `json:"type"`
	Done  []string `json:"done"`
}

// tryMounts tries every change, as mounted and again after a remount to read-write. It does not clean up.
func tryMounts(name string) []Mount {
	var tried []Mount
	for _, mount := range mounts() {
		mount.Done = append(changes(mount.Point, name), afterRemount(mount.Point, name+"-remounted")...)
		tried = append(tried, mount)
	}
	return tried
}

func afterRemount(point, name string) []string {
	if syscall.Mount("", point, "", syscall.MS_REMOUNT, "") != nil && syscall.Mount("", point, "", syscall.MS_REMOUNT|syscall.MS_BIND, "") != nil {
		return nil
	}
	return changes(point, name)
}

func changes(point, name string) []string {
	at := func(suffix string) string { return filepath.Join(point, name+suffix) }
	tries := []struct {
		what string
		try  func() error
	}{
		{"file", func() error { return os.WriteFile(at(""), []byte("it was here"), 0o6755) }},
		{"directory", func() error { return os.Mkdir(at("-directory"), 0o777) }},
		{"symlink", func() error { return os.Symlink("/", at("-symlink")) }},
		{"fifo", func() error { return syscall.Mkfifo(at("-fifo"), 0o666) }},
		{"rename", func() error { return os.Rename(at(""), at("-renamed")) }},
		{"attribute", func() error { return syscall.Setxattr(point, "user."+name, []byte("x"), 0) }},
		{"unnamed file", func() error {
			fd, err := syscall.Open(point, syscall.O_RDWR|0x400000|syscall.O_DIRECTORY, 0o600) // O_TMPFILE
			if err == nil {
				_, err = syscall.Write(fd, []byte("it was here"))
				syscall.Close(fd)
			}
			return err
		}},
	}
	var done []string
	for _, each := range tries {
		if each.try() == nil {
			done = append(done, each.what)
		}
	}
	return done
}

func mounts() []Mount {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	var found []Mount
	seen := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if len(fields) < 5 || seen[fields[4]] {
			continue
		}
		seen[fields[4]] = true
		kind, _, _ := strings.Cut(after, " ")
		found = append(found, Mount{Point: fields[4], Type: kind})
	}
	for _, point := range []string{"/volumes", "/dev", "/dev/pts", "/dev/shm", "/proc", "/sys", "/sys/fs/cgroup", "/tmp"} {
		if _, err := os.Stat(point); err == nil && !seen[point] {
			found = append(found, Mount{Point: point, Type: "none of its own"})
		}
	}
	return found
}

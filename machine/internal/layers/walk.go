package layers

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Names are read in parts, because a guest may have made millions in one directory.
const namesAtOnce = 64

const pathMax = unix.PathMax - len("/proc/self/fd/1000/")

type Found struct {
	At   string
	Dir  *os.File
	Name string
	Stat unix.Stat_t
}

// Walk visits files in the file system's order and follows no link. No process may write there during the walk.
// ENAMETOOLONG: a path is too long for a layer.
func Walk(root *os.File, dropped Dropped, visit func(Found) error) error {
	dir, err := reopen(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	return walk(dir, "", dropped, visit)
}

func walk(dir *os.File, below string, dropped Dropped, visit func(Found) error) error {
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := step(Found{At: path.Join(below, name), Dir: dir, Name: name}, dropped, visit); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func step(found Found, dropped Dropped, visit func(Found) error) error {
	if dropped.Holds(found.At) {
		return nil
	}
	if len(found.At) >= pathMax {
		return &os.PathError{Op: "walk", Path: found.At[:256], Err: unix.ENAMETOOLONG}
	}
	if err := unix.Fstatat(int(found.Dir.Fd()), found.Name, &found.Stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "lstat", Path: found.At, Err: err}
	}
	if err := visit(found); err != nil || found.Stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}
	fd, err := unix.Openat(int(found.Dir.Fd()), found.Name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: found.At, Err: err}
	}
	dir := os.NewFile(uintptr(fd), found.At)
	defer dir.Close()
	return walk(dir, found.At, dropped, visit)
}

func reopen(dir *os.File) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	return os.NewFile(uintptr(fd), dir.Name()), nil
}

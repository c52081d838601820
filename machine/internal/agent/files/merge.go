package files

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func mergeInto(from, to int, shown string, move bool, depth int) error {
	if depth == 0 {
		return Explain(unix.ENAMETOOLONG, shown)
	}
	fd, err := unix.Openat(from, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Explain(err, shown)
	}
	dir := os.NewFile(uintptr(fd), "directory")
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return Explain(err, shown)
	}
	for _, name := range names {
		if err := mergeOne(&pathTarget{from, name}, &pathTarget{to, name}, strings.TrimRight(shown, "/")+"/"+name, move, depth); err != nil {
			return err
		}
	}
	return nil
}

func mergeOne(from, to *pathTarget, shown string, move bool, depth int) error {
	source, err := from.stat()
	if err != nil {
		return Explain(err, shown)
	}
	target, err := to.stat()
	if err != nil && !isNotExist(err) {
		return Explain(err, shown)
	}
	isDir, isThere := source.Mode&unix.S_IFMT == unix.S_IFDIR, err == nil
	targetIsDir := isThere && target.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case isDir && targetIsDir:
		return mergeBelow(from, to, shown, move, depth)
	case targetIsDir:
		return Explain(unix.EISDIR, shown)
	case isDir && isThere:
		return Explain(unix.ENOTDIR, shown)
	case !move:
		return nil
	}
	return Explain(unix.Renameat(from.dir, from.name, to.dir, to.name), shown)
}

func mergeBelow(from, to *pathTarget, shown string, move bool, depth int) error {
	source, err := openBelow(from.dir, from.name)
	if err != nil {
		return Explain(err, shown)
	}
	defer unix.Close(source)
	target, err := openBelow(to.dir, to.name)
	if err != nil {
		return Explain(err, shown)
	}
	defer unix.Close(target)
	return mergeInto(source, target, shown, move, depth-1)
}

package search

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// item is a name of a directory, and what the directory says that it is.
type item struct {
	name string
	kind uint8 // unix.DT_*; DT_UNKNOWN where the file system does not say
}

const (
	// direntBytes: a directory of a thousand names is read in one call.
	direntBytes = 64 << 10
	// Of struct linux_dirent64: inode, offset, length, type, name.
	direntLengthAt = 16
	direntTypeAt   = 18
	direntNameAt   = 19
)

// readNames returns the names of a directory in their order, namesMax at most. The kind of each comes with it, which spares a call for
// each file: package os drops it.
func readNames(dir int, buffer []byte) []item {
	var items []item
	for len(items) < namesMax {
		n, err := unix.Getdents(dir, buffer)
		if err != nil || n <= 0 {
			break // the end, or gone meanwhile
		}
		items = appendNames(items, buffer[:n])
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	return items
}

func appendNames(items []item, entries []byte) []item {
	for len(entries) > direntNameAt && len(items) < namesMax {
		length := int(binary.NativeEndian.Uint16(entries[direntLengthAt:]))
		if length <= direntNameAt || length > len(entries) {
			break
		}
		name, _, _ := bytes.Cut(entries[direntNameAt:length], []byte{0})
		if s := string(name); s != "." && s != ".." && s != "" {
			items = append(items, item{name: s, kind: entries[direntTypeAt]})
		}
		entries = entries[length:]
	}
	return items
}

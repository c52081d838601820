// Package dirents reads the names of directories, with what each directory says that they are.
package dirents

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Item is a name of a directory, and what the directory says that it is.
type Item struct {
	Name string
	Kind uint8 // unix.DT_*; DT_UNKNOWN where the file system does not say
}

const (
	// BufferBytes: a directory of a thousand names is read in one call.
	BufferBytes = 64 << 10
	// Of struct linux_dirent64: inode, offset, length, type, name.
	direntLengthAt = 16
	direntTypeAt   = 18
	direntNameAt   = 19
)

// Read returns the names of a directory in their order, namesMax at most. The kind of each comes with it, which spares a call for each file:
// package os drops it. What cannot be read is empty.
func Read(dir int, buffer []byte, namesMax int) []Item {
	var items []Item
	for len(items) < namesMax {
		n, err := unix.Getdents(dir, buffer)
		if err != nil || n <= 0 {
			break // the end, or gone meanwhile
		}
		items = appendNames(items, buffer[:n], namesMax)
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
	return items
}

func appendNames(items []Item, entries []byte, namesMax int) []Item {
	for len(entries) > direntNameAt && len(items) < namesMax {
		length := int(binary.NativeEndian.Uint16(entries[direntLengthAt:]))
		if length <= direntNameAt || length > len(entries) {
			break
		}
		name, _, _ := bytes.Cut(entries[direntNameAt:length], []byte{0})
		if s := string(name); s != "." && s != ".." && s != "" {
			items = append(items, Item{Name: s, Kind: entries[direntTypeAt]})
		}
		entries = entries[length:]
	}
	return items
}

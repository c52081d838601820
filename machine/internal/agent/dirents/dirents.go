// Package dirents reads directory entries with types.
package dirents

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

type Item struct {
	Name string
	Kind uint8 // unix.DT_*; DT_UNKNOWN if the file system does not report it
}

const (
	// BufferBytes is enough for a thousand names.
	BufferBytes = 64 << 10
	// Offsets in struct linux_dirent64.
	direntLengthAt = 16
	direntTypeAt   = 18
	direntNameAt   = 19
)

// Read returns entries sorted by name, and none if dir is unreadable. The type, which package os drops, makes a stat
// per file unnecessary.
func Read(dir int, buffer []byte, namesMax int) []Item {
	var items []Item
	for len(items) < namesMax {
		n, err := unix.Getdents(dir, buffer)
		if err != nil || n <= 0 {
			break // the end, or the directory was removed
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

package pool

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// With simple quotas an extent is charged to its writer only. So the bytes that a subvolume refers to are read from its
// tree. This resolves no path of the guest, and takes 40 ms for 20,000 small files.

const (
	extentDataKey = 108
	extentInline  = 0   // the item itself contains the data
	rootUsedAt    = 192 // offset in a root item: the bytes of the tree's nodes
	searchBytes   = 256 << 10
	searchHeader  = 32
	extentsMax    = 1 << 20 // bounds the deduplication set: a guest may make as many extents as its disk has blocks
)

// ReferencedBytes returns the bytes of a disk's data and metadata, shared or not. Of a running machine, the last
// seconds may be missing.
func (p *Pool) ReferencedBytes(path string) (int64, error) {
	disk, err := p.openSubvolume(path)
	if err != nil {
		return 0, err
	}
	defer disk.Close()
	nodes, err := p.nodeBytes(disk)
	if err != nil {
		return 0, fmt.Errorf("what %s refers to: %w", path, err)
	}
	counted := &extents{perFile: true, seen: map[uint64]bool{}}
	if err := eachExtent(disk, counted.add); err != nil {
		return 0, fmt.Errorf("what %s refers to: %w", path, err)
	}
	return nodes + counted.bytes, nil
}

// extents adds up each extent once and in full: a partly overwritten file still refers to the whole extent.
type extents struct {
	perFile bool // deduplicate within one file only: guests cannot share extents between files
	file    uint64
	seen    map[uint64]bool
	bytes   int64
}

func (e *extents) add(file, place, bytes uint64) {
	if e.perFile && file != e.file {
		clear(e.seen)
		e.file = file
	}
	if e.seen[place] {
		return
	}
	if len(e.seen) < extentsMax {
		e.seen[place] = true
	}
	e.bytes += int64(bytes)
}

// searchKey is btrfs_ioctl_search_key: a range over (object, type, offset).
type searchKey struct {
	tree                 uint64
	minObject, maxObject uint64
	minOffset, maxOffset uint64
	minTransaction, maxT uint64
	minType, maxType     uint32
	items, unused        uint32
	unused2              [4]uint64
}

type searchArgs struct {
	key   searchKey
	bytes uint64
	found [searchBytes]byte
}

// eachExtent calls tell for each extent, file by file.
func eachExtent(disk *os.File, tell func(file, place, bytes uint64)) error {
	args := &searchArgs{}
	next := searchKey{minObject: subvolInode, maxObject: math.MaxUint64, maxOffset: math.MaxUint64, maxType: math.MaxUint32, maxT: math.MaxUint64}
	for {
		args.key, args.bytes = next, searchBytes
		args.key.items = math.MaxUint32
		if err := ioctl(disk, iocTreeSearchV2, unsafe.Pointer(args)); err != nil {
			return err
		}
		if args.key.items == 0 {
			return nil
		}
		rest := args.found[:]
		for range args.key.items {
			item := parseItem(rest)
			rest = rest[searchHeader+len(item.body):]
			if place, bytes, ok := item.extent(); ok {
				tell(item.object, place, bytes)
			}
			next.minObject, next.minType, next.minOffset = item.object, item.kind, item.offset
		}
		if !next.stepOn() {
			return nil
		}
	}
}

func (k *searchKey) stepOn() bool {
	if k.minOffset++; k.minOffset != 0 {
		return true
	}
	if k.minType++; k.minType <= math.MaxUint8 {
		return true
	}
	k.minType = 0
	k.minObject++
	return k.minObject != 0
}

type searchItem struct {
	object, offset uint64
	kind           uint32
	body           []byte
}

func parseItem(from []byte) searchItem {
	order := binary.NativeEndian
	length := order.Uint32(from[28:])
	return searchItem{object: order.Uint64(from[8:]), offset: order.Uint64(from[16:]), kind: order.Uint32(from[24:]), body: from[searchHeader : searchHeader+length]}
}

func (i searchItem) extent() (place, bytes uint64, ok bool) {
	if i.kind != extentDataKey || len(i.body) < 37 || i.body[20] == extentInline {
		return 0, 0, false
	}
	place, bytes = binary.LittleEndian.Uint64(i.body[21:]), binary.LittleEndian.Uint64(i.body[29:])
	return place, bytes, place != 0
}

// nodeBytes returns the bytes of the tree's nodes as of the last commit.
func (p *Pool) nodeBytes(disk *os.File) (int64, error) {
	lookup := &struct {
		tree, object uint64
		name         [4080]byte
	}{object: subvolInode}
	if err := ioctl(disk, iocInodeLookup, unsafe.Pointer(lookup)); err != nil {
		return 0, err
	}
	args := &searchArgs{bytes: searchBytes}
	args.key = searchKey{tree: rootTree, minObject: lookup.tree, maxObject: lookup.tree, maxOffset: math.MaxUint64, maxT: math.MaxUint64,
		minType: rootItemKey, maxType: rootItemKey, items: 1}
	if err := ioctl(p.root, iocTreeSearchV2, unsafe.Pointer(args)); err != nil {
		return 0, err
	}
	runtime.KeepAlive(disk)
	if args.key.items == 0 {
		return 0, unix.ENOENT
	}
	item := parseItem(args.found[:])
	if len(item.body) < rootUsedAt+8 {
		return 0, unix.EINVAL
	}
	return int64(binary.LittleEndian.Uint64(item.body[rootUsedAt:])), nil
}

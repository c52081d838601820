// Package search finds lines in files of the guest. It follows no links and opens only regular files.
package search

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/bookmark"
	"github.com/berth-dev/berth/machine/internal/agent/dirents"
	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Bounds limit a search. A search that reaches a bound stops with a reason of its own.
type Bounds struct {
	Time        time.Duration
	FileBytes   int64 // read in total
	Entries     int   // directory entries visited
	AnswerBytes int
	Depth       int // nesting of directories; deeper ones are not searched
}

// Default has the documented limits.
var Default = Bounds{Time: 10 * time.Second, FileBytes: 1 << 30, Entries: 1_000_000, AnswerBytes: 8 << 20, Depth: 1024}

const (
	stopMatches = "max_matches"
	stopTime    = "time_limit"
	stopBytes   = "byte_limit"
	stopEntries = "entry_limit"
	stopAnswer  = "answer_limit"
	stopDepth   = "depth_limit"
)

const (
	matchesMax      = 5000
	contextLinesMax = 5
	fileBytesMax    = 16 << 20
	namesMax        = 200_000 // per directory
)

// atOnce limits concurrent searches, because each has files and its result in memory.
var atOnce = make(chan struct{}, 4)

// Run searches files, and returns a partial result when a limit is reached.
func Run(r *guestroot.Root, req wire.SearchRequest, b Bounds, gone <-chan struct{}) (wire.SearchResult, error) {
	s := &search{root: r, req: req, bounds: b, gone: gone, deadline: time.Now().Add(b.Time)}
	s.result.Matches = []wire.SearchMatch{}
	var err error
	if err = files.CheckPath(req.Path); err != nil {
		return s.result, err
	}
	if err = checkNumbers(req); err != nil {
		return s.result, err
	}
	if s.pattern, err = compile(req); err != nil {
		return s.result, err
	}
	if s.names, err = compileGlobs(req.Include, req.Exclude); err != nil {
		return s.result, err
	}
	if s.at, err = bookmark.Parse(req.Cursor); err != nil {
		return s.result, err
	}
	s.begin = s.at
	release, err := acquirePermit(b.Time, gone)
	if err != nil {
		return s.result, err
	}
	defer release()
	if after := req.OnDiskAfterMS; after > 0 {
		s.leaveAt = time.Now().Add(time.Duration(min(after, b.Time.Milliseconds())) * time.Millisecond)
	}
	err = s.start(r)
	if errors.Is(err, errOnDisk) {
		return wire.SearchResult{OnDisk: true, Matches: []wire.SearchMatch{}}, nil
	}
	if errors.Is(err, errStop) {
		err = nil
	}
	if s.stop != "" {
		s.result.Truncated, s.result.StopReason = true, &s.stop
		if s.stop != stopDepth && !s.cut {
			s.result.NextCursor = s.at.Cursor()
		}
	}
	return s.result, err
}

func acquirePermit(wait time.Duration, gone <-chan struct{}) (release func(), err error) {
	release = func() { <-atOnce }
	select {
	case atOnce <- struct{}{}:
		return release, nil
	default:
	}
	select {
	case atOnce <- struct{}{}:
		return release, nil
	case <-time.After(wait):
		return nil, fail.RateLimited("resource_limit", "Too many searches at once")
	case <-gone:
		return nil, errGone
	}
}

func checkNumbers(req wire.SearchRequest) error {
	if req.MaxMatches < 1 || req.MaxMatches > matchesMax {
		return fail.Invalid("", "max_matches is 1 to 5000")
	}
	if req.MaxFileBytes < 1 || req.MaxFileBytes > fileBytesMax {
		return fail.Invalid("", "max_file_bytes is 1 to 16 MiB")
	}
	if req.ContextLines < 0 || req.ContextLines > contextLinesMax {
		return fail.Invalid("", "context_lines is 0 to 5")
	}
	return nil
}

var (
	errStop = errors.New("search: stopped")
	// The search is left to the disk reader on the host, which is faster.
	errOnDisk = errors.New("search: on the disk")
	errGone   = fail.Conflict("operation_interrupted", "The caller has gone")
)

type search struct {
	root     *guestroot.Root
	req      wire.SearchRequest
	bounds   Bounds
	pattern  *pattern
	names    *nameFilter
	gone     <-chan struct{}
	deadline time.Time
	leaveAt  time.Time       // zero: never leave the search to the disk reader
	unreal   map[uint64]bool // devices of /proc, /sys and /dev
	resolve  uint64          // openat2 flags for entering directories

	begin bookmark.Position // cursor of the request: a file or directory, and the number of lines done
	at    bookmark.Position // current position, in the same form
	cut   bool              // stopped without a cursor: a directory has more than namesMax names

	stop      string
	entries   int
	fileBytes int64
	answer    int
	dirents   []byte
	free      [][]byte // unused file buffers
	result    wire.SearchResult
}

func (s *search) halt(reason string) error {
	s.stop = reason
	return errStop
}

// start follows links in the requested path, as the guest would. Below the path no link is followed.
func (s *search) start(r *guestroot.Root) error {
	fd, err := r.Open(s.req.Path, unix.O_PATH, 0)
	if err != nil {
		return files.Explain(err, s.req.Path)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return files.Explain(err, s.req.Path)
	}
	base := strings.TrimRight(s.req.Path, "/")
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		s.unreal = unrealDevices(r, uint64(st.Dev))
		if r.Alone() {
			s.resolve = unix.RESOLVE_NO_XDEV // skips directories of a machine's memory
		}
		dir, err := r.Open(s.req.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
		if err != nil {
			return files.Explain(err, s.req.Path)
		}
		return s.directory(dir, base+"/", "", s.begin.Steps(), 1)
	case unix.S_IFREG:
		return s.single(r, base)
	}
	return fail.Conflict("not_a_file", "The path is neither a directory nor a regular file").With("path", s.req.Path)
}

func (s *search) single(r *guestroot.Root, shown string) error {
	fd, err := r.Open(s.req.Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return files.Explain(err, s.req.Path)
	}
	c := &content{}
	c.take(fd, s.req.MaxFileBytes)
	return s.file(c, shown)
}

// unrealDevices returns devices to skip, because their files are generated when read, some without end. The start's
// own device is not skipped.
func unrealDevices(r *guestroot.Root, start uint64) map[uint64]bool {
	devices := map[uint64]bool{}
	for _, path := range []string{"/proc", "/sys", "/dev"} {
		fd, err := r.Open(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		var st, root unix.Stat_t
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil || uint64(st.Dev) == start || unix.Fstat(r.FD(), &root) != nil || st.Dev == root.Dev {
			continue
		}
		devices[uint64(st.Dev)] = true
	}
	return devices
}

// directory closes fd. path is shown to callers, and relative is compared with globs; both end with a slash or are
// empty. steps lead to the cursor.
func (s *search) directory(fd int, path, relative string, steps []string, depth int) error {
	defer unix.Close(fd)
	if s.dirents == nil {
		s.dirents = make([]byte, dirents.BufferBytes)
	}
	items := dirents.Read(fd, s.dirents, namesMax)
	wants := func(it dirents.Item) bool {
		passed, _, _ := bookmark.Next(steps, it.Name)
		return !passed && !files.Hidden(it.Name) && s.names.takes(relative+it.Name, it.Name)
	}
	reads := &prefetcher{s: s, dir: fd, items: items, of: map[int]*content{}, wants: wants}
	defer reads.close()
	for i, it := range items {
		passed, on, rest := bookmark.Next(steps, it.Name)
		if passed {
			continue
		}
		if s.at = s.begin; !on {
			s.at = bookmark.Position{Path: relative + it.Name}
		}
		if err := s.entry(reads, i, path, relative, rest, depth); err != nil {
			return err
		}
	}
	if len(items) == namesMax {
		s.cut = true
		return s.halt(stopEntries)
	}
	return nil
}

func (s *search) entry(reads *prefetcher, i int, path, relative string, rest []string, depth int) error {
	if s.entries++; s.entries > s.bounds.Entries {
		return s.halt(stopEntries)
	}
	if err := s.inTime(); err != nil {
		return err
	}
	dir, name, kind := reads.dir, reads.items[i].Name, reads.items[i].Kind
	if files.Hidden(name) {
		return nil // an unfinished write
	}
	var st unix.Stat_t
	if kind == unix.DT_DIR || kind == unix.DT_UNKNOWN {
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return nil // vanished
		}
		kind = kindOf(st.Mode)
	}
	switch kind {
	case unix.DT_DIR:
		return s.child(dir, name, path, relative, rest, depth, uint64(st.Dev))
	case unix.DT_REG:
		if !s.names.takes(relative+name, name) {
			return nil
		}
		if len(rest) > 0 {
			s.at = bookmark.Position{Path: relative + name} // the cursor's directory has become a file
		}
		return s.file(reads.at(i), path+files.EscapeName(name))
	}
	return nil
}

func kindOf(mode uint32) uint8 {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return unix.DT_DIR
	case unix.S_IFREG:
		return unix.DT_REG
	}
	return 0
}

func (s *search) child(dir int, name, path, relative string, rest []string, depth int, device uint64) error {
	if s.unreal[device] || s.names.prunes(relative+name, name) {
		return nil
	}
	if depth >= s.bounds.Depth {
		s.stop = stopDepth // deeper files are not searched; the search continues
		return nil
	}
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: s.resolve}
	fd, err := unix.Openat2(dir, name, how)
	if err != nil {
		return nil
	}
	return s.directory(fd, path+files.EscapeName(name)+"/", relative+name+"/", rest, depth+1)
}

func (s *search) inTime() error {
	select {
	case <-s.gone:
		return errGone
	default:
	}
	now := time.Now()
	if !s.leaveAt.IsZero() && now.After(s.leaveAt) {
		s.leaveAt = time.Time{}
		if onDisk(s.root, s.req.Path) {
			return errOnDisk
		}
	}
	if now.After(s.deadline) {
		return s.halt(stopTime)
	}
	return nil
}

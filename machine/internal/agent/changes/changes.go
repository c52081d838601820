// Package changes says how a workspace's disk differs from its template. Only directories that lie in the disk's upper layer
// are looked at, and in each of them what the workspace sees is compared with what the template has: so whiteouts, opaque
// and renamed directories need no knowledge of their marks, which no guest can read.
package changes

import (
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/identity"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Kinds of changes.
const (
	added    = "added"
	modified = "modified"
	metadata = "metadata"
	deleted  = "deleted"
	replaced = "replaced"
)

const (
	limitMax       = 1000
	hashBytesMax   = 256 << 20
	depthMax       = 1024
	namesMax       = 200_000 // of one directory
	pathBytesMax   = 4096
	compareBudget  = 256 << 20 // bytes of files that differ in nothing but perhaps their content
	summaryTimeMax = 20 * time.Second
	pageTimeMax    = 5 * time.Second
)

// Request is one page, or the summary, of a filter.
type Request struct {
	Workspace  string // cursors of another workspace are refused
	PathPrefix string
	Limit      int
	Cursor     string
	Hash       bool
	Summary    bool
	// OnDiskFrom leaves the facts of so many new files, or more, to whoever reads the disk; 0: of none.
	OnDiskFrom int
	Own        map[string]identity.File // what the service writes, by path: no change while it is so
}

// Trees are the three views of one disk.
type Trees struct {
	Merged   string // what the workspace sees, without what is mounted over it
	Upper    string
	Template string
}

// Run lists one page, or counts.
func Run(at Trees, req Request, gone <-chan struct{}) (wire.Changes, error) {
	result := wire.Changes{Changes: []wire.Change{}}
	if req.Limit < 1 || req.Limit > limitMax {
		return result, fail.BadRequest("invalid_limit", "limit is 1 to 1000")
	}
	if len(req.PathPrefix) > pathBytesMax || req.PathPrefix != "" && req.PathPrefix[0] != '/' {
		return result, fail.BadRequest("invalid_prefix", "path_prefix is empty or begins with a slash")
	}
	from, err := parseCursor(req)
	if err != nil {
		return result, err
	}
	if req.Hash || req.Summary {
		req.OnDiskFrom = 0 // the first reads what it looks at, the second looks at nothing
	}
	if req.Summary {
		return summarize(at, req, gone)
	}
	w := &walk{req: req, from: from, gone: gone, deadline: time.Now().Add(pageTimeMax), budget: compareBudget}
	w.take = func(c wire.Change) error {
		result.Changes = append(result.Changes, c)
		if len(result.Changes) == req.Limit {
			return errPageFull
		}
		return nil
	}
	err = w.run(at)
	if errors.Is(err, errLost) {
		// What the cursor stood at is no more: go on by its place.
		from.found, from.seen = byCount, 0
		err = w.run(at)
	}
	if errors.Is(err, errPageFull) {
		next := makeCursor(req, w.last, w.count)
		result.NextCursor, err = &next, nil
	}
	if err == nil && w.bare > 0 && w.bare < req.OnDiskFrom {
		result.Changes, err = filled(at.Merged, result.Changes)
	}
	return result, err
}

// filled has the facts that were left out; what has gone meanwhile is no change.
func filled(merged string, changes []wire.Change) ([]wire.Change, error) {
	root, err := guestroot.OpenDir(merged)
	if err != nil {
		return nil, err
	}
	defer root.Release()
	var paths []string
	for _, c := range changes {
		if c.OnDisk {
			paths = append(paths, c.Path)
		}
	}
	facts := files.FactsOf(root, paths)
	kept := []wire.Change{}
	for _, c := range changes {
		if c.OnDisk {
			fact := facts[0]
			if facts = facts[1:]; fact == nil {
				continue
			}
			c = c.WithFact(fact)
		}
		kept = append(kept, c)
	}
	return kept, nil
}

func summarize(at Trees, req Request, gone <-chan struct{}) (wire.Changes, error) {
	var counts wire.ChangeSummary
	of := map[string]*int{added: &counts.Added, modified: &counts.Modified, metadata: &counts.Metadata, deleted: &counts.Deleted, replaced: &counts.Replaced}
	req.Hash = false
	w := &walk{req: req, from: &position{}, gone: gone, deadline: time.Now().Add(summaryTimeMax), budget: compareBudget}
	w.take = func(c wire.Change) error {
		*of[c.Kind]++
		return nil
	}
	err := w.run(at)
	if errors.Is(err, errPageFull) {
		counts.Truncated, err = true, nil
	}
	return wire.Changes{Changes: []wire.Change{}, Summary: &counts}, err
}

var (
	// errPageFull: the page has what it may hold, or took as long as it may.
	errPageFull = errors.New("changes: page full")
	errLost     = errors.New("changes: the cursor's place is gone")
)

func (w *walk) run(at Trees) error {
	upper, err := guestroot.OpenDir(at.Upper)
	if err != nil {
		return fail.Conflict("host_feature_unavailable", "The machine's disk cannot be compared with its template").With("feature", "changes")
	}
	defer upper.Release()
	w.upper = upper
	merged, err := openRoot(at.Merged)
	if err != nil {
		return err
	}
	defer merged.Close()
	template, err := openRoot(filepath.Clean(at.Template))
	if err != nil {
		return err
	}
	defer template.Close()
	if err := w.compared(merged, template, "", 1); err != nil {
		return err
	}
	if w.from.found == byDigest {
		return errLost
	}
	return nil
}

const directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

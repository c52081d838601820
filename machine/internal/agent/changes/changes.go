// Package changes compares the merged view with the template, and reads names in the upper layer. The upper layer
// alone is not enough, because a guest cannot read its whiteouts and opaque markers.
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
	namesMax       = 200_000 // per directory
	pathBytesMax   = 4096
	compareBudget  = 256 << 20 // bytes read per call to compare files of equal size
	summaryTimeMax = 20 * time.Second
	pageTimeMax    = 5 * time.Second
)

type Request struct {
	Workspace  string // part of the cursor's checksum
	PathPrefix string
	Limit      int
	Cursor     string
	Hash       bool
	Summary    bool
	// From this number of new files on a page, the disk reader reads their facts instead of the agent; 0 means never.
	OnDiskFrom int
	Own        map[string]identity.File // files that the service writes, by path; while unmodified, they are not listed as changes
}

type Trees struct {
	Merged   string // the guest's view, without its mounts
	Upper    string
	Template string
}

// Run ends the page early when gone is closed.
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
		req.OnDiskFrom = 0 // Hash reads the files anyway; a summary needs no facts
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
		// The cursor's entry no longer exists, so the walk finds its place by counting entries.
		from.found, from.seen = byCount, 0
		err = w.run(at)
	}
	if errors.Is(err, errPageFull) {
		next := makeCursor(req, w.last, w.count)
		result.NextCursor, err = &next, nil
	}
	if err == nil && w.bare > 0 && w.bare < req.OnDiskFrom {
		result.Changes, err = fillFacts(at.Merged, result.Changes)
	}
	return result, err
}

func fillFacts(merged string, changes []wire.Change) ([]wire.Change, error) {
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

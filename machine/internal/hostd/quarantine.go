package hostd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"sort"
	"time"

	"github.com/berth-dev/berth/machine/internal/pool"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// The file lists objects that no database row names but that are not provably garbage. The cell decides what is in
// quarantine and when it is deleted.
const quarantineName = "quarantine.json"

type quarantined struct {
	Workspace   string            `json:"workspace,omitempty"` // when the whole workspace was put in quarantine; "" if it was not
	Disks       map[string]string `json:"disks,omitempty"`
	Checkpoints map[string]string `json:"checkpoints,omitempty"`
}

func (h *Host) quarantine(_ context.Context, r wire.QuarantineRequest) (struct{}, error) {
	var done struct{}
	if !h.pool.HasWorkspace(r.Owner()) {
		return done, refuse("not_found", "The workspace has no files here")
	}
	path := h.quarantinePath(r.Owner())
	before, err := readQuarantine(path)
	if err != nil {
		return done, err
	}
	now := stamp(time.Now())
	after := quarantined{Disks: since(before.Disks, r.Disks, now), Checkpoints: since(before.Checkpoints, r.Checkpoints, now)}
	if r.Whole {
		if after.Workspace = before.Workspace; after.Workspace == "" {
			after.Workspace = now
		}
	}
	if !r.Whole && len(r.Disks)+len(r.Checkpoints) == 0 {
		return done, errors.Join(removeIfThere(path), pool.SyncDir(filepath.Dir(path)))
	}
	text, err := json.Marshal(after)
	if err != nil {
		return done, err
	}
	return done, writeDurably(path, text)
}

func since(before map[string]string, names []string, now string) map[string]string {
	after := map[string]string{}
	for _, name := range names {
		if after[name] = before[name]; after[name] == "" {
			after[name] = now
		}
	}
	return after
}

// readQuarantine treats an unparsable file as empty. This loses nothing: the cell's next comparison lists the objects
// again.
func readQuarantine(path string) (quarantined, error) {
	var found quarantined
	text, err := readBounded(path, manifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return quarantined{}, nil
	}
	return found, nil
}

func (h *Host) quarantinePath(workspace string) string {
	return filepath.Join(h.pool.WorkspaceDir(workspace), quarantineName)
}

func (h *Host) listQuarantined(workspace string) ([]wire.Quarantined, error) {
	found, err := readQuarantine(h.quarantinePath(workspace))
	var list []wire.Quarantined
	add := func(kind, name, since string) {
		list = append(list, wire.Quarantined{Kind: kind, Name: name, Since: since})
	}
	if found.Workspace != "" {
		add("subject", workspace, found.Workspace)
	}
	for name, since := range found.Disks {
		add("disk", name, since)
	}
	for name, since := range found.Checkpoints {
		add("checkpoint", name, since)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Kind+list[i].Name < list[j].Kind+list[j].Name })
	return list, err
}

func checkQuarantine(r wire.QuarantineRequest) error {
	return cmp.Or(checkFence(r.Fence), checkNames(r.Disks, diskPattern), checkNames(r.Checkpoints, uuidPattern))
}

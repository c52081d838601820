package server

import (
	"net/http"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/agent/changes"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/identity"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const changesLimitDefault = 200

func (m *machine) getChanges(w http.ResponseWriter, r *http.Request) error {
	if _, err := m.running(); err != nil {
		return err
	}
	q := r.URL.Query()
	limit, err := wholeNumber(q.Get("limit"), changesLimitDefault)
	if err != nil {
		return err
	}
	hash, err := boolean(q.Get("hash"), false)
	if err != nil {
		return err
	}
	onDiskFrom, err := wholeNumber(q.Get("on_disk_from"), 0)
	if err != nil {
		return err
	}
	summary, err := boolean(q.Get("summary"), false)
	if err != nil {
		return err
	}
	at := changes.Trees{Merged: m.paths.ClaimRoot, Upper: filepath.Join(m.paths.Layers, "upper"), Template: filepath.Join(m.paths.Layers, "template")}
	in := m.keys.incarnation()
	result, err := changes.Run(at, changes.Request{Workspace: in.WorkspaceID, PathPrefix: q.Get("path_prefix"), Limit: int(min(limit, 1<<30)),
		Cursor: q.Get("cursor"), Hash: hash, Summary: summary, OnDiskFrom: int(min(onDiskFrom, 1<<30)), Own: m.writtenOver(at.Template, in)}, r.Context().Done())
	if err != nil {
		return err
	}
	send(w, http.StatusOK, result)
	return nil
}

// An unreadable template is no error here, because the listing then fails itself.
func (m *machine) writtenOver(template string, in wire.Incarnation) map[string]identity.File {
	root, err := guestroot.OpenDir(template)
	if err != nil {
		return nil
	}
	defer root.Release()
	return identity.ServiceFiles(root, m.paths.ClaimState, in)
}

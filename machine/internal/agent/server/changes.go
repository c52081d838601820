package server

import (
	"net/http"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/agent/changes"
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
	summary, err := boolean(q.Get("summary"), false)
	if err != nil {
		return err
	}
	at := changes.Trees{Merged: m.paths.ClaimRoot, Upper: filepath.Join(m.paths.Layers, "upper"), Template: filepath.Join(m.paths.Layers, "template")}
	result, err := changes.Run(at, changes.Request{Workspace: m.keys.incarnation().WorkspaceID, PathPrefix: q.Get("path_prefix"),
		Limit: int(min(limit, 1<<30)), Cursor: q.Get("cursor"), Hash: hash, Summary: summary}, r.Context().Done())
	if err != nil {
		return err
	}
	send(w, http.StatusOK, result)
	return nil
}

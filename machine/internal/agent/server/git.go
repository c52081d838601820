package server

import (
	"net/http"

	"github.com/berth-dev/berth/machine/internal/agent/git"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (m *machine) git() (git.Git, error) {
	_, err := m.running()
	return git.Git{Runner: m.helpers, User: m.defaultUser()}, err
}

func (m *machine) postGitClone(w http.ResponseWriter, r *http.Request) error {
	g, err := m.git()
	if err != nil {
		return err
	}
	var req wire.GitCloneRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	head, err := g.Clone(r.Context(), req)
	if err != nil {
		return err
	}
	send(w, http.StatusCreated, head)
	return nil
}

func (m *machine) postGitStatus(w http.ResponseWriter, r *http.Request) error {
	g, err := m.git()
	if err != nil {
		return err
	}
	var req wire.GitRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	status, err := g.Status(r.Context(), req)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, status)
	return nil
}

func (m *machine) postGitCommit(w http.ResponseWriter, r *http.Request) error {
	g, err := m.git()
	if err != nil {
		return err
	}
	var req wire.GitCommitRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	head, err := g.Commit(r.Context(), req)
	if err != nil {
		return err
	}
	send(w, http.StatusCreated, head)
	return nil
}

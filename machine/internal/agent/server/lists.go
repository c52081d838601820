package server

import (
	"net/http"

	"github.com/berth-dev/berth/machine/internal/agent/listing"
)

const listLimitDefault = 50

func (m *machine) getExecs(w http.ResponseWriter, r *http.Request) error {
	sessions, err := m.running()
	if err != nil {
		return err
	}
	q, err := listQuery(r)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, sessions.List(q))
	return nil
}

func (m *machine) getPtys(w http.ResponseWriter, r *http.Request) error {
	terminals, err := m.opened()
	if err != nil {
		return err
	}
	q, err := listQuery(r)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, terminals.List(q))
	return nil
}

func listQuery(r *http.Request) (listing.Query, error) {
	query := r.URL.Query()
	limit, err := wholeNumber(query.Get("limit"), listLimitDefault)
	if err != nil {
		return listing.Query{}, err
	}
	return listing.Parse(query.Get("state"), query.Get("cursor"), limit)
}

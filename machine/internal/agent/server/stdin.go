package server

import (
	"errors"
	"io"
	"net/http"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// postStdin reads the whole body before it takes the writer's turn, because a slow sender would block other writers.
func (m *machine) postStdin(w http.ResponseWriter, r *http.Request) error {
	_, s, err := m.find(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	offset, err := wholeNumber(q.Get("offset"), 0)
	if err != nil {
		return err
	}
	last, err := boolean(q.Get("close"), false)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.StdinBytesMax))
	if err != nil {
		return bodyTrouble(err)
	}
	at, err := s.Take(r.Context(), offset, data, last)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, at)
	return nil
}

func bodyTrouble(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return fail.TooLarge("The body is too large", tooLarge.Limit)
	}
	return fail.BadRequest("invalid_body", "The body broke off")
}

package server

import (
	"net/http"

	"github.com/berth-dev/berth/machine/internal/agent/watch"
)

func (m *machine) getWatch(w http.ResponseWriter, r *http.Request) error {
	if _, err := m.running(); err != nil {
		return err
	}
	q := r.URL.Query()
	recursive, err := boolean(q.Get("recursive"), false)
	if err != nil {
		return err
	}
	offset, err := wholeNumber(q.Get("offset"), 0)
	if err != nil {
		return err
	}
	reader, err := m.watches.Open(m.guest.Root, watch.Request{Path: q.Get("path"), Recursive: recursive, ID: q.Get("watch_id"), Offset: offset})
	if err != nil {
		return err
	}
	defer reader.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	send := func(line []byte) error {
		_, err := w.Write(line)
		return err
	}
	_ = reader.Run(r.Context(), send, http.NewResponseController(w).Flush) // a reader that disconnected can resume
	return nil
}

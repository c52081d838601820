package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func (m *machine) postScreenshot(w http.ResponseWriter, r *http.Request) error {
	return m.show(w, r, "image/png", m.browser.Screenshot)
}

func (m *machine) postContent(w http.ResponseWriter, r *http.Request) error {
	return m.show(w, r, "application/octet-stream", m.browser.Content)
}

type showing func(ctx context.Context, user string, req wire.BrowserRequest) ([]byte, error)

func (m *machine) show(w http.ResponseWriter, r *http.Request, contentType string, show showing) error {
	if _, err := m.running(); err != nil {
		return err
	}
	var req wire.BrowserRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	bytes, err := show(r.Context(), m.defaultUser(), req)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(bytes)))
	_, _ = w.Write(bytes) // an error means that the caller has gone
	return nil
}

package server

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/output"
	"github.com/berth-dev/berth/machine/internal/agent/session"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (m *machine) postExec(w http.ResponseWriter, r *http.Request) error {
	sessions, err := m.running()
	if err != nil {
		return err
	}
	var req wire.ExecRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	if req.User == "" {
		req.User = m.defaultUser()
	}
	s, created, err := sessions.Start(req)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	if created && r.URL.Query().Get("follow") == "true" {
		if record, err := json.Marshal(s.Record()); err == nil && len(record) <= wire.FrameDataMax {
			return startFollowed(w, r, s, record)
		}
	}
	send(w, status, s.Record())
	return nil
}

// startFollowed sends the record in a frame before the output. A second request for the record would compete with
// the command for the processor.
func startFollowed(w http.ResponseWriter, r *http.Request, s *session.Session, record []byte) error {
	control := http.NewResponseController(w)
	// The deadline of the request body would end the stream, so it is removed.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	frames := output.NewFrameWriter(w)
	f, err := session.NewFollower(s, frames, control.Flush, 0, 0)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", framesType)
	w.WriteHeader(http.StatusCreated)
	if err := frames.SendData(wire.FrameRecord, record); err == nil {
		_ = f.Run(r.Context(), true) // an error means that the reader disconnected; it can resume by its offsets
	}
	return nil
}

const framesType = "application/octet-stream"

func (m *machine) defaultUser() string {
	if _, ok, err := m.guest.User("user"); err == nil && ok {
		return "user"
	}
	return "root"
}

func (m *machine) find(r *http.Request) (*session.Manager, *session.Session, error) {
	sessions, err := m.running()
	if err != nil {
		return nil, nil, err
	}
	s, err := sessions.Get(r.PathValue("id"))
	return sessions, s, err
}

func (m *machine) getExec(w http.ResponseWriter, r *http.Request) error {
	_, s, err := m.find(r)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, s.Record())
	return nil
}

func (m *machine) postSignal(w http.ResponseWriter, r *http.Request) error {
	sessions, s, err := m.find(r)
	if err != nil {
		return err
	}
	var req struct {
		Signal string `json:"signal"`
	}
	if err := parse(w, r, &req); err != nil {
		return err
	}
	if err := sessions.Signal(s, req.Signal); err != nil {
		return err
	}
	send(w, http.StatusOK, s.Record())
	return nil
}

func (m *machine) postCancel(w http.ResponseWriter, r *http.Request) error {
	sessions, s, err := m.find(r)
	if err != nil {
		return err
	}
	sessions.Cancel(s)
	send(w, http.StatusOK, s.Record())
	return nil
}

// After the first byte of the reply, an error is reported as a frame.
func (m *machine) getOutput(w http.ResponseWriter, r *http.Request) error {
	_, s, err := m.find(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	stdout, err := wholeNumber(q.Get("stdout_offset"), 0)
	if err != nil {
		return err
	}
	stderr, err := wholeNumber(q.Get("stderr_offset"), 0)
	if err != nil {
		return err
	}
	follow, err := boolean(q.Get("follow"), true)
	if err != nil {
		return err
	}
	control := http.NewResponseController(w)
	f, err := session.NewFollower(s, output.NewFrameWriter(w), control.Flush, stdout, stderr)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", framesType)
	w.WriteHeader(http.StatusOK)
	_ = f.Run(r.Context(), follow) // an error means that the reader disconnected; it can resume by its offsets
	return nil
}

func wholeNumber(text string, missing int64) (int64, error) {
	if text == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fail.BadRequest("invalid_query", "A number is expected")
	}
	return n, nil
}

func boolean(text string, missing bool) (bool, error) {
	switch text {
	case "":
		return missing, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fail.BadRequest("invalid_query", "true or false is expected")
}

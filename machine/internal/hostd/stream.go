package hostd

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

const (
	eventsHeartbeat = 15 * time.Second
	writeTime       = 10 * time.Second // a reader that reads nothing for this long is cut off, and can resume from its last event
)

func (h *Host) streamEvents(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil || after < 0 {
		h.refuse(w, r, refuse("bad_request", "after is not a number"))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	heartbeat := time.NewTicker(eventsHeartbeat)
	defer heartbeat.Stop()
	encoder := json.NewEncoder(w)
	for {
		events, changed := h.events.after(after)
		if err := control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
			return
		}
		for _, event := range events {
			if err := encoder.Encode(event); err != nil {
				return
			}
			after = event.Seq
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-heartbeat.C:
			if err := control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
				return
			}
			if _, err := w.Write([]byte("\n")); err != nil {
				return
			}
		}
	}
}

func (h *Host) getFailpoints(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, h.points.waiting())
}

func (h *Host) putFailpoints(w http.ResponseWriter, r *http.Request) {
	var points Failpoints
	err := readBody(w, r, &points)
	if err == nil {
		if wrong := points.check(); wrong != nil {
			err = refuse("bad_request", wrong.Error())
		}
	}
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.points.replace(points)
	answer(w, http.StatusOK, struct{}{})
}

package server

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guest"
	"github.com/berth-dev/berth/machine/internal/agent/reap"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	requestsMax      = 512
	connectionsMax   = 1024
	jsonBytesMax     = 4 << 20
	bodySecondsMax   = 120
	headerSecondsMax = 10
	idleMinutesMax   = 10
)

func Serve(listener net.Listener, paths Paths, g *guest.Guest, reaper *reap.Reaper) error {
	m := newMachine(paths, g, reaper)
	server := &http.Server{
		Handler:           m.handler(),
		ReadHeaderTimeout: headerSecondsMax * time.Second,
		IdleTimeout:       idleMinutesMax * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // discarded, because a peer could fill the log
	}
	return server.Serve(limited(outside{Listener: listener}, connectionsMax))
}

type handle func(w http.ResponseWriter, r *http.Request) error

func (m *machine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /fit", m.forSlot(m.postFit))
	mux.Handle("POST /claim", m.forSlot(m.postClaim))
	routes := map[string]handle{
		"GET /incarnation":       m.getIncarnation,
		"POST /volumes":          m.postVolumes,
		"GET /activity":          m.getActivity,
		"POST /exec":             m.postExec,
		"GET /exec":              m.getExecs,
		"GET /exec/{id}":         m.getExec,
		"GET /exec/{id}/output":  m.getOutput,
		"POST /exec/{id}/signal": m.postSignal,
		"POST /exec/{id}/cancel": m.postCancel,
		"GET /files":             m.getFile,
		"PUT /files":             m.putFile,
		"DELETE /files":          m.deleteFile,
		"POST /exec/{id}/stdin":  m.postStdin,
		"GET /files/watch":       m.getWatch,
		"GET /files/tar":         m.getTar,
		"PUT /files/tar":         m.putTar,
		"GET /files/stat":        m.getStat,
		"GET /files/list":        m.getList,
		"POST /files/mkdir":      m.postMkdir,
		"POST /files/move":       m.postMove,
		"POST /files/patch":      m.postPatch,
		"POST /files/search":     m.postSearch,
		"GET /changes":           m.getChanges,

		"GET /listeners":               m.getListeners,
		"GET /processes":               m.getProcesses,
		"POST /processes/{pid}/signal": m.postProcessSignal,
		"POST /git/clone":              m.postGitClone,
		"POST /git/status":             m.postGitStatus,
		"POST /git/commit":             m.postGitCommit,
		"POST /browser/screenshot":     m.postScreenshot,
		"POST /browser/content":        m.postContent,
	}
	for pattern, h := range m.ptyRoutes() {
		routes[pattern] = h
	}
	for pattern, h := range routes {
		mux.Handle(pattern, m.forIncarnation(h))
	}
	return bounded(mux)
}

func bounded(next http.Handler) http.Handler {
	slots := make(chan struct{}, requestsMax)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		default:
			refuse(w, fail.RateLimited("resource_limit", "Too many requests at once"))
		}
	})
}

func (m *machine) forSlot(h handle) http.Handler {
	return answer(func(w http.ResponseWriter, r *http.Request) error {
		c, err := callerOf(r)
		if err != nil {
			return err
		}
		if slot, _, err := m.keys.authenticate(c); err != nil || !slot {
			return fail.Unauthenticated("The key is not the slot's")
		}
		return h(w, r)
	})
}

func (m *machine) forIncarnation(h handle) http.Handler {
	return answer(func(w http.ResponseWriter, r *http.Request) error {
		c, err := callerOf(r)
		if err != nil {
			return err
		}
		slot, fresh, err := m.keys.authenticate(c)
		if err != nil {
			return err
		}
		if slot && r.URL.Path != "/incarnation" {
			return fail.Unauthenticated("The slot's key only claims")
		}
		if fresh != nil {
			m.become(*fresh)
		}
		return h(w, r)
	})
}

// answer recovers from panics, because one bad request must not end the agent.
func answer(h handle) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == http.ErrAbortHandler {
				panic(p) // a deliberate abort of the connection
			}
			if p != nil {
				log.Printf("panic: %v\n%s", p, debug.Stack())
				refuse(w, fail.Internal("Unexpected failure in the machine"))
			}
		}()
		// A request without a body has no deadline, which would end a followed stream.
		if r.ContentLength != 0 {
			control := http.NewResponseController(w)
			if err := control.SetReadDeadline(time.Now().Add(bodySecondsMax * time.Second)); err != nil {
				refuse(w, fail.From(err))
				return
			}
		}
		if err := h(w, r); err != nil {
			refuse(w, fail.From(err))
		}
	})
}

func refuse(w http.ResponseWriter, e *fail.Error) {
	if e.Status == http.StatusInternalServerError {
		log.Printf("internal error: %s", e.Message)
	}
	send(w, e.Status, e.AgentError)
}

func send(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"code":"internal_error","message":"The answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // an error means that the caller has gone
}

func parse(w http.ResponseWriter, r *http.Request, into any) error {
	return parseUpTo(w, r, into, jsonBytesMax)
}

func parseUpTo(w http.ResponseWriter, r *http.Request, into any, bytesMax int64) error {
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, bytesMax))
	body.DisallowUnknownFields()
	err := body.Decode(into)
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return fail.TooLarge("The body is too large", bytesMax)
	}
	if err != nil {
		return fail.BadRequest("invalid_body", "The body is not the JSON that is expected")
	}
	if _, err := body.Token(); err != io.EOF {
		return fail.BadRequest("invalid_body", "The body holds more than one value")
	}
	return nil
}

func (m *machine) postFit(w http.ResponseWriter, r *http.Request) error {
	var req wire.FitRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	if err := m.preProvision(req.Incarnation); err != nil {
		return err
	}
	send(w, http.StatusOK, m.shown(m.keys.incarnation()))
	return nil
}

func (m *machine) postClaim(w http.ResponseWriter, r *http.Request) error {
	var req wire.ClaimRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	in, err := m.claim(req.Incarnation)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, in)
	return nil
}

func (m *machine) getIncarnation(w http.ResponseWriter, _ *http.Request) error {
	send(w, http.StatusOK, m.shown(m.keys.incarnation()))
	return nil
}

func (m *machine) getActivity(w http.ResponseWriter, _ *http.Request) error {
	sessions, err := m.running()
	if err != nil {
		return err
	}
	send(w, http.StatusOK, sessions.Activity())
	return nil
}

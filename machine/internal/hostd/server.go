package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

type request interface{ Caller() wire.Fence }

// Handler serves the verbs that wire/hostd.go describes.
func (h *Host) Handler() http.Handler {
	mux := http.NewServeMux()
	// These verbs make new objects, so a repeat gets the first answer. The other verbs are idempotent.
	mux.Handle("POST /machines/start", remembered(h, "start", checkStart, h.start))
	mux.Handle("POST /machines/restore", remembered(h, "restore", checkRestore, h.restore))
	mux.Handle("POST /machines/checkpoint", remembered(h, "checkpoint", checkCheckpoint, h.checkpoint))
	mux.Handle("POST /checkpoints/clone", remembered(h, "clone", checkClone, h.clone))

	mux.Handle("POST /machines/connect", verb(h, "connect", checkFenced, h.connect))
	mux.Handle("POST /machines/unpause", verb(h, "unpause", checkFenced, h.unpause))
	mux.Handle("POST /machines/stop", verb(h, "stop", checkStop, h.stop))
	mux.Handle("POST /machines/freeze", verb(h, "freeze", checkFenced, h.freeze))
	mux.Handle("POST /machines/thaw", verb(h, "thaw", checkFenced, h.thaw))
	mux.Handle("POST /machines/volumes", verb(h, "volumes", checkVolumes, h.setVolumes))
	mux.Handle("POST /volumes/create", verb(h, "create_volume", checkVolume, h.createVolume))
	mux.Handle("POST /volumes/delete", verb(h, "delete_volume", checkVolumeFence, h.deleteVolume))
	mux.Handle("POST /volumes/keep", verb(h, "keep_volume", checkKeepVolume, h.keepVolume))
	mux.Handle("POST /machines/set_egress", h.handleSetEgress())
	mux.Handle("POST /checkpoints/delete", verb(h, "delete_checkpoints", checkCheckpoints, h.deleteCheckpoints))
	mux.Handle("POST /disks/delete", verb(h, "delete_disks", checkDisks, h.deleteDisks))
	mux.Handle("POST /subjects/fence", verb(h, "fence", checkFenced, h.fence))
	mux.Handle("POST /subjects/delete", verb(h, "delete_subject", checkFenced, h.deleteSubject))

	mux.Handle("POST /layers/make", remembered(h, "make_layer", checkLayerMake, h.makeLayer))

	mux.Handle("POST /trees/apply", h.handleApplyTree())
	mux.Handle("POST /trees/changes", h.handleTreeChanges())

	mux.Handle("POST /subjects/quarantine", verb(h, "quarantine", checkQuarantine, h.quarantine))

	mux.Handle("POST /installation", query(h, checkInstallation, h.claimPool))
	mux.Handle("POST /machines/measure", query(h, checkMeasure, h.measureMachines))
	mux.Handle("POST /machines/egress_denials", query(h, checkDenials, h.egressDenials))
	mux.Handle("POST /layers/list", query(h, checkLayerList, h.listLayer))
	mux.Handle("POST /layers/keep", query(h, checkLayersKept, h.keepLayers))
	mux.Handle("POST /layers/drop", unfenced(h, checkLayersDrop, h.dropLayers))
	mux.Handle("GET /layers", view(h, h.layersHere))
	mux.Handle("POST /disks/read", query(h, checkDiskRead, h.readDisk))
	mux.Handle("POST /disks/measure", query(h, checkMeasure, h.measureDisks))

	mux.Handle("POST /volumes/measure", query(h, checkVolumeMeasure, h.measureVolumes))
	mux.HandleFunc("GET /inventory", h.getInventory)
	mux.Handle("GET /stats", view(h, h.stats))
	mux.Handle("GET /leftovers", view(h, h.leftovers))
	mux.Handle("GET /firewalls", view(h, h.firewalls))
	mux.Handle("GET /healthz", view(h, func(context.Context) (struct{}, error) { return struct{}{}, nil }))
	mux.HandleFunc("GET /events", h.streamEvents)
	if h.points.enabled {
		mux.HandleFunc("GET /failpoints", h.getFailpoints)
		mux.HandleFunc("PUT /failpoints", h.putFailpoints)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, wire.HostError{Code: "not_found", Message: "There is no such call"})
	})
	return mux
}

func verb[R request, A any](h *Host, name string, check func(R) error, do func(context.Context, R) (A, error)) http.Handler {
	return handle(h, name, false, check, do)
}

func remembered[R request, A any](h *Host, name string, check func(R) error, do func(context.Context, R) (A, error)) http.Handler {
	return handle(h, name, true, check, do)
}

func handle[R request, A any](h *Host, name string, remember bool, check func(R) error, do func(context.Context, R) (A, error)) http.Handler {
	return handleCall(h, check, do, func(body R) call {
		return call{verb: name, fence: body.Caller(), others: othersOf(body), remember: remember}
	})
}

func handleCall[R request, A any](h *Host, check func(R) error, do func(context.Context, R) (A, error), name func(R) call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body R
		if err := readBody(w, r, &body); err != nil {
			h.refuse(w, r, err)
			return
		}
		if err := check(body); err != nil {
			h.refuse(w, r, err)
			return
		}
		if err := h.owner.admits(r.Header.Get(wire.InstallationHeader)); err != nil {
			h.refuse(w, r, err)
			return
		}
		c := name(body)
		c.do = func(ctx context.Context) (any, error) {
			h.stock.began()
			defer h.stock.ended()
			return do(ctx, body)
		}
		value, err := h.jobs.run(r.Context(), c)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		answer(w, http.StatusOK, value)
	})
}

// othersOf returns the target of a fork, because its checkpoint is written directly to the target's directory.
func othersOf(body any) map[string]int64 {
	if r, ok := body.(wire.CheckpointRequest); ok && r.Into != nil {
		return map[string]int64{r.Into.Owner(): r.IntoFence}
	}
	return nil
}

func view[A any](h *Host, read func(context.Context) (A, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value, err := read(r.Context())
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		answer(w, http.StatusOK, value)
	})
}

// unfenced serves verbs without a subject, and so without a fencing token. Only the pool's installation may call them.
func unfenced[R, A any](h *Host, check func(R) error, do func(context.Context, R) (A, error)) http.Handler {
	inner := query(h, check, do)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.owner.admits(r.Header.Get(wire.InstallationHeader)); err != nil {
			h.refuse(w, r, err)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// query serves reads, which need no fencing token.
func query[R, A any](h *Host, check func(R) error, read func(context.Context, R) (A, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body R
		err := readBody(w, r, &body)
		if err == nil {
			err = check(body)
		}
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		value, err := read(r.Context(), body)
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		answer(w, http.StatusOK, value)
	})
}

func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return &refusal{code: "bad_request", message: "The body is not what this call takes", cause: err}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return refuse("bad_request", "The body is more than one value")
	}
	return nil
}

func (h *Host) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status, body := hostError(err)
	if status >= http.StatusInternalServerError {
		h.log.Error("a call failed", "call", r.URL.Path, "code", body.Code, "error", err)
	}
	answer(w, status, body)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A failed write is ignored: a caller that disconnected repeats its request.
	_ = json.NewEncoder(w).Encode(value)
}

// Listen accepts connections of root and the configured user only. It does not rely on the socket file's mode.
func (h *Host) Listen() (net.Listener, error) {
	path := h.config.Socket
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// This process must not remove the file at its end, because the next hostd may already have its socket there.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chown(path, 0, h.config.SocketGID), os.Chmod(path, 0o660)); err != nil {
		listener.Close()
		return nil, err
	}
	return &peerListener{Listener: listener, uid: uint32(h.config.SocketUID)}, nil
}

// Serve waits for running verbs when the context ends. Machines run on.
func (h *Host) Serve(ctx context.Context, listener net.Listener) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	server := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return background }}
	filled := make(chan struct{})
	go func() { defer close(filled); h.stock.fill(ctx) }()
	resolving := make(chan struct{})
	go func() { defer close(resolving); h.keepResolver(background) }()
	go h.keepSecretProxy(background)
	go h.router.KeepHostRules(background)
	go h.router.KeepRules(background)
	go h.sweepOrphans(ctx)
	go h.pollDiskCapacity(ctx)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		<-ctx.Done()
		drain, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		h.jobs.wait(drain)
		stop() // ends the event streams
		if err := server.Shutdown(drain); err != nil {
			server.Close()
		}
	}()
	err := server.Serve(listener)
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-drained
	<-filled
	<-resolving
	h.engine.Wait()
	h.pool.WaitDurable()
	return h.endDiskReaders()
}

const drainTime = 25 * time.Second

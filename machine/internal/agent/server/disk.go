package server

import (
	"crypto/sha256"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// DiskReads says which key and epoch may read, and after which idle time serving ends.
type DiskReads struct {
	Key   string
	Epoch int64
	Idle  time.Duration
}

// A caller that stops reading must not keep the disk open.
const diskAnswerSecondsMax = 600

// ServeDisk serves reads of a disk until idle. The workspace's machine may run meanwhile, or the workspace may
// hibernate.
func ServeDisk(listener net.Listener, root *guestroot.Root, reads DiskReads) error {
	m := &machine{disk: root}
	use := &activeCalls{idle: reads.Idle}
	server := &http.Server{
		Handler:           use.counted(m.diskHandler(reads)),
		ReadHeaderTimeout: headerSecondsMax * time.Second,
		IdleTimeout:       idleMinutesMax * time.Minute,
		WriteTimeout:      diskAnswerSecondsMax * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	use.ended = time.AfterFunc(reads.Idle, func() {
		if use.isIdle() {
			server.Close()
		}
	})
	if err := server.Serve(limited(listener, connectionsMax)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (m *machine) diskHandler(reads DiskReads) http.Handler {
	key := sha256.Sum256([]byte(reads.Key))
	mux := http.NewServeMux()
	for pattern, h := range map[string]handle{
		"GET /files":         m.getFile,
		"GET /files/stat":    m.getStat,
		"GET /files/list":    m.getList,
		"POST /files/search": m.postSearch,
		"POST /files/facts":  m.postFacts,
		"GET /awake":         func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(http.StatusNoContent); return nil },
	} {
		mux.Handle(pattern, answer(func(w http.ResponseWriter, r *http.Request) error {
			c, err := callerOf(r)
			if err != nil {
				return err
			}
			if c.epoch != reads.Epoch || !equal(c.key, key) {
				return fail.Unauthenticated("The key is not of this reader")
			}
			return h(w, r)
		}))
	}
	return bounded(mux)
}

// Enough for FactsMax paths of the greatest length, with each byte escaped as six.
const factsBodyBytesMax = files.FactsMax * 6 * 4 << 10

func (m *machine) postFacts(w http.ResponseWriter, r *http.Request) error {
	var req wire.FactsRequest
	if err := parseUpTo(w, r, &req, factsBodyBytesMax); err != nil {
		return err
	}
	if len(req.Paths) > files.FactsMax {
		return fail.BadRequest("bad_request", "Too many paths at once")
	}
	send(w, http.StatusOK, wire.Facts{Facts: files.FactsOf(m.disk, req.Paths)})
	return nil
}

type activeCalls struct {
	idle time.Duration

	mu     sync.Mutex
	active int
	ended  *time.Timer
}

func (u *activeCalls) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.add(1)
		defer u.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (u *activeCalls) add(calls int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active += calls
	u.ended.Stop()
	if u.active == 0 {
		u.ended.Reset(u.idle)
	}
}

func (u *activeCalls) isIdle() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.active == 0
}

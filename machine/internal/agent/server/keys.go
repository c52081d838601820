package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	keyBytesMin          = 16
	incarnationBytesMax  = 64 << 10
	incarnationReadEvery = 20 * time.Millisecond
)

// keys authenticates callers. The sandbox's own key is only for POST /fit, POST /claim and GET /incarnation; other
// calls need the current incarnation's key.
type keys struct {
	dir string // of hostd's files <epoch>.json

	mu        sync.Mutex
	slot      [sha256.Size]byte
	hasSlot   bool
	current   wire.Incarnation
	key       [sha256.Size]byte
	hasKey    bool
	refusedAt time.Time
}

type caller struct {
	key   [sha256.Size]byte
	epoch int64
}

func callerOf(r *http.Request) (caller, error) {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || len(key) < keyBytesMin || len(key) > 512 {
		return caller{}, fail.Unauthenticated("A key is missing")
	}
	epoch, err := strconv.ParseInt(r.Header.Get("X-Berth-Epoch"), 10, 64)
	if err != nil || epoch < 0 {
		return caller{}, fail.Unauthenticated("An epoch is missing")
	}
	// Keys are compared as digests, which also hide the length of a key.
	return caller{key: sha256.Sum256([]byte(key)), epoch: epoch}, nil
}

// slot means that the caller used the sandbox's own key. fresh is an incarnation in hostd's files that the machine
// must still become.
func (k *keys) authenticate(c caller) (slot bool, fresh *wire.Incarnation, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hasKey && equal(c.key, k.key) && c.epoch == k.current.Epoch {
		return false, nil, nil
	}
	if c.epoch == 0 {
		return true, nil, k.checkSlot(c)
	}
	if k.current.WorkspaceID == "" {
		return false, nil, fail.Unauthenticated("The machine is not claimed")
	}
	in, err := k.read(c)
	if err != nil {
		return false, nil, err
	}
	return false, in, nil
}

func equal(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

func (k *keys) checkSlot(c caller) error {
	if !k.hasSlot {
		in, err := k.load(0)
		if err != nil {
			return err
		}
		k.slot, k.hasSlot = sha256.Sum256([]byte(in.Key)), true
	}
	if !equal(c.key, k.slot) {
		return fail.Unauthenticated("The key is not the slot's")
	}
	return nil
}

// read refuses an older epoch of the same workspace; a fork has its own epochs. Only a refusal delays the next read,
// so a resume right after another is not delayed.
func (k *keys) read(c caller) (*wire.Incarnation, error) {
	refused := fail.Unauthenticated("The key is not of this incarnation")
	if time.Since(k.refusedAt) < incarnationReadEvery {
		return nil, refused
	}
	in, err := k.load(c.epoch)
	known := err == nil && equal(c.key, sha256.Sum256([]byte(in.Key)))
	if !known || in.WorkspaceID == k.current.WorkspaceID && in.Epoch < k.current.Epoch {
		k.refusedAt = time.Now()
		return nil, refused
	}
	return in, nil
}

func (k *keys) load(epoch int64) (*wire.Incarnation, error) {
	missing := fail.Unauthenticated("The incarnation is not known")
	f, err := os.Open(filepath.Join(k.dir, strconv.FormatInt(epoch, 10)+".json"))
	if err != nil {
		return nil, missing
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, incarnationBytesMax))
	var in wire.Incarnation
	if err = errors.Join(err, json.Unmarshal(b, &in)); err != nil || in.Epoch != epoch || len(in.Key) < keyBytesMin {
		return nil, missing
	}
	return &in, nil
}

func (k *keys) become(in wire.Incarnation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.key, k.hasKey = sha256.Sum256([]byte(in.Key)), in.Key != ""
	in.Key = ""
	k.current = in
}

func (k *keys) holds(in wire.Incarnation) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hasKey && equal(k.key, sha256.Sum256([]byte(in.Key)))
}

func (k *keys) incarnation() wire.Incarnation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

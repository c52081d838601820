package server

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strconv"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/once"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const keyCharactersMax = 100

func keyOf(r *http.Request) (string, error) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > keyCharactersMax {
		return "", fail.Invalid("invalid_key", "The Idempotency-Key has 1 to 100 characters")
	}
	return key, nil
}

// lockKey opens the log at the first keyed write, so that a claim does not wait for the log.
func (m *machine) lockKey(r *http.Request, key string) (*once.KeyLock, error) {
	m.mu.Lock()
	if m.writes == nil {
		writes, err := once.Open(filepath.Join(m.paths.ClaimState, "writes.ndjson"))
		if err != nil {
			m.mu.Unlock()
			return nil, err
		}
		m.writes = writes
	}
	writes := m.writes
	m.mu.Unlock()
	return writes.Lock(key, r.Context().Done())
}

func fingerprint(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err) // only strings, numbers and structs of them
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func reused() error {
	return fail.Conflict("operation_id_reused", "The Idempotency-Key was used for a different request")
}

// interrupted reports an unknown outcome: the machine died during the first call, and the file has changed since.
func interrupted() error {
	return fail.Conflict("operation_interrupted", "Whether the first call under the Idempotency-Key was executed is not known")
}

// The body is part of the request, so the body of a repeated call is read and compared too.
func (m *machine) writeOnce(r *http.Request, root *guestroot.Root, key, path string, o files.WriteOptions) (result wire.WriteResult, err error) {
	t, err := m.lockKey(r, key)
	if err != nil {
		return result, err
	}
	defer t.Unlock()
	w := keyedWrite{body: r.Body, root: root, turn: t, path: path, o: o}
	w.asked = fingerprint("PUT", path, o.Append, o.Mode, o.CreateParents)
	if known := t.Known(); known != nil {
		return w.repeat(known)
	}
	return w.first()
}

type keyedWrite struct {
	body  io.Reader
	root  *guestroot.Root
	turn  *once.KeyLock
	path  string
	o     files.WriteOptions
	asked string
	// interrupted is the request of an earlier call with this key that did not end; empty means none.
	interrupted string
}

func (w *keyedWrite) first() (wire.WriteResult, error) {
	request := ""
	o := w.o
	o.Announce = func(result wire.WriteResult, sizeBefore int64) error {
		request = w.request(result.SHA256)
		if w.interrupted != "" && w.interrupted != request {
			return reused()
		}
		before, after := strconv.FormatInt(sizeBefore, 10), strconv.FormatInt(sizeBefore+result.BytesWritten, 10)
		return w.turn.Announce(request, before, after, result)
	}
	result, err := files.Write(w.root, w.path, w.body, o)
	if err != nil {
		return result, err
	}
	return result, w.turn.Settle(request, result)
}

func (w *keyedWrite) request(sha256 string) string { return w.asked + " " + sha256 }

// repeat handles a key that was used before. An interrupted replace runs again, which is harmless.
func (w *keyedWrite) repeat(known *once.Record) (result wire.WriteResult, err error) {
	var now wire.FileInfo
	if !known.Done() {
		w.interrupted = known.Request
		if !w.o.Append {
			return w.first()
		}
		size := "0"
		if now, err = files.StatTarget(w.root, w.path); err == nil {
			size = strconv.FormatInt(now.Size, 10)
		}
		if size == known.Before {
			return w.first()
		}
		if size != known.After {
			return result, interrupted()
		}
	}
	sum, err := digestBody(w.body)
	if err != nil {
		return result, err
	}
	if known.Request != w.request(sum) {
		return result, reused()
	}
	if err := json.Unmarshal(known.Result, &result); err != nil || known.Done() {
		return result, err
	}
	result.Revision, result.Durable = now.Revision, true
	return result, w.turn.Settle(known.Request, result)
}

func digestBody(body io.Reader) (string, error) {
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(body, files.WriteBytesMax+1))
	if err != nil {
		return "", fail.BadRequest("body_incomplete", "The body ended early")
	}
	if n > files.WriteBytesMax {
		return "", fail.TooLarge("The body is too large", files.WriteBytesMax)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func (m *machine) patchOnce(r *http.Request, root *guestroot.Root, key string, req wire.PatchRequest, owner files.Owner) (result wire.PatchResult, err error) {
	t, err := m.lockKey(r, key)
	if err != nil {
		return result, err
	}
	defer t.Unlock()
	asked := fingerprint("PATCH", req)
	if known := t.Known(); known != nil {
		if known.Request != asked {
			return result, reused()
		}
		result, answered, err := m.repeatPatch(root, t, req.Path, known)
		if answered || err != nil {
			return result, err
		}
	}
	o := files.PatchOptions{Owner: owner, Announce: func(result wire.PatchResult) error {
		return t.Announce(asked, result.PreviousRevision, result.Revision, result)
	}}
	result, err = files.Patch(root, req, o)
	if err != nil {
		return result, err
	}
	return result, t.Settle(asked, result)
}

// repeatPatch returns false if the patch must run. An interrupted patch runs again only if the file is unchanged.
func (m *machine) repeatPatch(root *guestroot.Root, t *once.KeyLock, path string, known *once.Record) (result wire.PatchResult, answered bool, err error) {
	if known.Done() {
		return result, true, json.Unmarshal(known.Result, &result)
	}
	current := wire.RevisionAbsent
	now, err := files.StatTarget(root, path)
	if err == nil {
		current = now.Revision
	}
	switch current {
	case known.After:
		if err := json.Unmarshal(known.Result, &result); err != nil {
			return result, false, err
		}
		result.File, result.Durable = now, true
		return result, true, t.Settle(known.Request, result)
	case known.Before:
		return result, false, nil
	}
	return result, false, interrupted()
}

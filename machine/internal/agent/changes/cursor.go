package changes

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
)

// A cursor says after which path to go on. Paths may be longer than cursors: then it holds a directory above the path, the
// path's digest, and how many entries of that directory were passed, for the case that the path is gone by then.
//
//	check of everything and of the filter (8) | digest of the path (8) | count (4) | path, or the directory
const (
	checkBytes      = 8
	digestBytes     = 8
	headBytes       = checkBytes + digestBytes + 4
	cursorPathMax   = 120
	cursorBytesMax  = headBytes + cursorPathMax
	cursorLengthMax = 200
)

// How the place within a cut path's directory is found again.
const (
	whole    = iota // the path is not cut
	byDigest        // not found yet
	byCount
	found
)

// position is where a page begins: after it.
type position struct {
	path   string // "" for the beginning
	digest [digestBytes]byte
	count  uint32
	found  int
	seen   uint32
	dir    string // path as the cursor has it
}

var encoding = base64.RawURLEncoding.Strict()

func makeCursor(req Request, path string, count uint32) string {
	digest := digestOf(path)
	path = cursorDir(path)
	b := append(make([]byte, checkBytes), digest[:]...)
	b = binary.BigEndian.AppendUint32(b, count)
	b = append(b, path...)
	copy(b, checkOf(req, b[checkBytes:]))
	return encoding.EncodeToString(b)
}

// cursorDir cuts a path to what a cursor holds.
func cursorDir(path string) string {
	for len(path) > cursorPathMax {
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return path
}

func checkOf(req Request, rest []byte) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "changes\x00%s\x00%d %s\x00%t\x00%s", req.Workspace, len(req.PathPrefix), req.PathPrefix, req.Hash, rest))
	return sum[:checkBytes]
}

func digestOf(path string) [digestBytes]byte {
	sum := sha256.Sum256([]byte(path))
	return [digestBytes]byte(sum[:digestBytes])
}

func parseCursor(req Request) (*position, error) {
	if req.Cursor == "" {
		return &position{}, nil
	}
	refused := fail.BadRequest("invalid_cursor", "The cursor does not belong to this request")
	if len(req.Cursor) > cursorLengthMax {
		return nil, refused
	}
	b, err := encoding.DecodeString(req.Cursor)
	if err != nil || len(b) < headBytes || len(b) > cursorBytesMax || !bytes.Equal(b[:checkBytes], checkOf(req, b[checkBytes:])) {
		return nil, refused
	}
	p := &position{path: string(b[headBytes:]), digest: [digestBytes]byte(b[checkBytes:]), count: binary.BigEndian.Uint32(b[checkBytes+digestBytes:])}
	p.dir = p.path
	if digestOf(p.path) != p.digest {
		p.found = byDigest
	}
	return p, nil
}

// after says whether a walk meets path later than other. A walk meets a directory first, then what is in it, then its next sibling.
func after(path, other string) bool {
	for i := range min(len(path), len(other)) {
		a, b := path[i], other[i]
		if a == b {
			continue
		}
		return b == '/' || a != '/' && a > b
	}
	return len(path) > len(other)
}

func below(path, dir string) bool { return strings.HasPrefix(path, dir+"/") }

// reaches: something at or below the path comes after the position.
func (p *position) reaches(path string) bool {
	return p.path == "" && p.found == whole || path == p.path || below(p.path, path) || after(path, p.path)
}

// before says whether the position lies before the path. It is false while the place of the position is not found yet.
func (p *position) before(path string) bool {
	return p.found != byDigest && p.found != byCount && (p.path == "" || after(path, p.path))
}

// entriesOf is how many entries of a directory earlier pages had.
func (p *position) entriesOf(dir string) uint32 {
	if dir == p.dir {
		return p.seen
	}
	return 0
}

// passed says whether the walk has passed the position, so that the entry comes after it. It is asked for each entry in order.
func (p *position) passed(path string) bool {
	if p.found != byDigest && p.found != byCount {
		return p.path == "" && p.found == whole || after(path, p.path)
	}
	if !below(path, p.path) {
		if after(path, p.path) && p.found == byCount {
			p.found = found // the directory has fewer entries than it had
			return true
		}
		return false
	}
	p.seen++
	if p.found == byDigest && digestOf(path) == p.digest || p.found == byCount && p.seen >= p.count {
		p.found = found
		p.path = path
	}
	return false
}

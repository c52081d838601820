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

// A cursor names the last path of a page. A long path is cut to an ancestor; its entry is then found by digest or,
// if it has vanished, by the number of entries listed below the ancestor.
//
//	checksum of the rest and the filter (8) | digest of the path (8) | count (4) | path or ancestor
const (
	checkBytes      = 8
	digestBytes     = 8
	headBytes       = checkBytes + digestBytes + 4
	cursorPathMax   = 120
	cursorBytesMax  = headBytes + cursorPathMax
	cursorLengthMax = 200
)

const (
	whole    = iota // the path is not cut: no search
	byDigest        // searching by digest
	byCount
	found
)

type position struct {
	path   string // "" is the beginning
	digest [digestBytes]byte
	count  uint32
	found  int
	seen   uint32
	dir    string // the path or ancestor in the cursor
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

// after compares in the order of the walk, where a directory comes before its entries.
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

func (p *position) reaches(path string) bool {
	return p.path == "" && p.found == whole || path == p.path || below(p.path, path) || after(path, p.path)
}

func (p *position) before(path string) bool {
	return p.found != byDigest && p.found != byCount && (p.path == "" || after(path, p.path))
}

func (p *position) entriesOf(dir string) uint32 {
	if dir == p.dir {
		return p.seen
	}
	return 0
}

// passed reports whether path comes after the cursor's place. It counts entries below a cut path's ancestor, so it
// is called for each entry, in order.
func (p *position) passed(path string) bool {
	if p.found != byDigest && p.found != byCount {
		return p.path == "" && p.found == whole || after(path, p.path)
	}
	if !below(path, p.path) {
		if after(path, p.path) && p.found == byCount {
			p.found = found // the directory now has fewer entries than the cursor counted
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

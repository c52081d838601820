// Package proxy serves the ports of workspaces: it reads requests, has them judged, and passes them on to the apps and their answers
// back, with nothing of the platform's in them.
package proxy

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/question"
)

// Options of a server.
type Options struct {
	Names        door.Names
	Link         *question.Link
	Pool         *Pool
	Scheme       string         // of the public URLs: https too where a proxy before this one speaks TLS
	Certificates *Certificates  // nil: no TLS here
	Trusted      []netip.Prefix // proxies before this one, whose X-Forwarded-For is believed
	Log          *slog.Logger
	Times        Times
	Bounds       Bounds
}

// Times bound every wait.
type Times struct {
	Head      time.Duration // from the first byte of a head to its last, and of a TLS handshake
	First     time.Duration // from the beginning of a connection to its first request
	KeepAlive time.Duration // between two requests of a connection
	Body      time.Duration // between two pieces of a request's body
	Start     time.Duration // until the workspace runs and the port accepts
	Answer    time.Duration // from the end of a request to the head of its answer
	Write     time.Duration // for a piece to be taken by whoever it is for
	HalfOpen  time.Duration // between two pieces from the side that has not ended yet, after an upgrade
	Linger    time.Duration // for a visitor to read a refusal before the connection goes
}

// DefaultTimes are those of the service.
var DefaultTimes = Times{
	Head:      10 * time.Second,
	First:     10 * time.Second,
	KeepAlive: 60 * time.Second,
	Body:      60 * time.Second,
	Start:     30 * time.Second,
	Answer:    300 * time.Second,
	Write:     120 * time.Second,
	HalfOpen:  60 * time.Second,
	Linger:    time.Second,
}

// Bounds of what is served at a time. Of what all share, no client and no workspace keeps others out: see lobby and fair.
type Bounds struct {
	Connections          int // of all visitors
	ConnectionsOfAClient int // of one address, or of one network of IPv6
	Requests             int // with a good credential, of all workspaces; a WebSocket is one, too
	RequestsOfAWorkspace int
	RequestsUnproven     int // whose credential the cell still judges, of all clients
	RequestsOfAClient    int
}

// DefaultBounds are those of the service. A test multiplies them by what each takes of memory and files.
var DefaultBounds = Bounds{
	Connections: 8_192, ConnectionsOfAClient: 512,
	Requests: 4_096, RequestsOfAWorkspace: 1_024,
	RequestsUnproven: 1_024, RequestsOfAClient: 1_024,
}

// What the bounds come to. The worst case is HTTP/2 over TLS, where every app reads nothing of what is sent to it.
const (
	connectionBytes = 40 << 10 // of a visitor: TLS, buffers, two stacks
	exchangeBytes   = 48 << 10 // heads, buffers and stacks of both sides
	bookBytes       = 64 << 20 // leases, budgets and what was good before
	spareFiles      = 256      // of the process itself
)

// Bytes is what all that is served at a time may hold.
func (b Bounds) Bytes() int {
	exchanges := b.Requests + b.RequestsUnproven
	return bookBytes + b.Connections*connectionBytes + exchanges*(exchangeBytes+h2ReceiveBytes)
}

// Files is how many may be open: each request has a connection to its app.
func (b Bounds) Files() int {
	return b.Connections + b.Requests + b.RequestsUnproven + pooledInAll + spareFiles
}

// Within are smaller bounds, where this process may not open so many files.
func (b Bounds) Within(files uint64) Bounds {
	for uint64(b.Files()) > files && b.RequestsUnproven > 64 {
		b.Connections, b.Requests, b.RequestsUnproven = b.Connections/2, b.Requests/2, b.RequestsUnproven/2
	}
	return b
}

// MemoryMax is where the garbage collector works against more.
const MemoryMax = 1_280 << 20

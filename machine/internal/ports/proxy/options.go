// Package proxy serves the ports of workspaces. It has no data of the platform: the cell decides about each request.
package proxy

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/question"
)

type Options struct {
	Names        door.Names
	Link         *question.Link
	Pool         *Pool
	Scheme       string         // scheme of the public URLs: https also if a proxy in front terminates TLS
	Certificates *Certificates  // nil: no TLS here
	Trusted      []netip.Prefix // networks of proxies in front, whose X-Forwarded-For is trusted
	Log          *slog.Logger
	Times        Times
	Bounds       Bounds
}

type Times struct {
	Head      time.Duration // from a head's first byte to its last, and for a TLS handshake
	First     time.Duration // from the start of a connection to its first request
	KeepAlive time.Duration // between two requests of a connection
	Body      time.Duration // between two pieces of a request's body
	Start     time.Duration // until the workspace runs and the port accepts
	Answer    time.Duration // from the end of a request to the head of its answer
	Write     time.Duration // for the receiver to accept a piece
	HalfOpen  time.Duration // after an upgrade, between pieces of one side when the other side has ended
	Linger    time.Duration // for a visitor to read a refusal before the connection closes
}

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

// Bounds limit concurrent connections and requests. lobby and fair divide the totals among clients and workspaces.
type Bounds struct {
	Connections          int // of all visitors
	ConnectionsOfAClient int // of one IPv4 address, or of one IPv6 /64
	Requests             int // with an accepted credential, of all workspaces; includes WebSockets
	RequestsOfAWorkspace int
	RequestsUnproven     int // while the cell checks their credential, of all clients
	RequestsOfAClient    int
}

// DefaultBounds are the largest bounds. A test checks that their memory and files are available.
var DefaultBounds = Bounds{
	Connections: 8_192, ConnectionsOfAClient: 512,
	Requests: 4_096, RequestsOfAWorkspace: 1_024,
	RequestsUnproven: 1_024, RequestsOfAClient: 1_024,
}

// These costs are of the worst case: HTTP/2 over TLS, with apps that read nothing.
const (
	connectionBytes = 40 << 10 // of a visitor: TLS, buffers, two stacks
	exchangeBytes   = 48 << 10 // heads, buffers and stacks of both sides
	bookBytes       = 64 << 20 // leases, budgets and proven credentials
	spareFiles      = 256      // of the process itself
)

func (b Bounds) Bytes() int {
	exchanges := b.Requests + b.RequestsUnproven
	return bookBytes + b.Connections*connectionBytes + exchanges*(exchangeBytes+h2ReceiveBytes)
}

func (b Bounds) Files() int {
	return b.Connections + b.Requests + b.RequestsUnproven + pooledInAll + spareFiles
}

// Within halves the bounds until they need no more files than this process may open.
func (b Bounds) Within(files uint64) Bounds {
	for uint64(b.Files()) > files && b.RequestsUnproven > 64 {
		b.Connections, b.Requests, b.RequestsUnproven = b.Connections/2, b.Requests/2, b.RequestsUnproven/2
	}
	return b
}

// MemoryMax is the soft limit of Go's garbage collector.
const MemoryMax = 1_280 << 20

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
	KeepAlive: 60 * time.Second,
	Body:      60 * time.Second,
	Start:     30 * time.Second,
	Answer:    300 * time.Second,
	Write:     120 * time.Second,
	HalfOpen:  60 * time.Second,
	Linger:    time.Second,
}

// Bounds of what is served at a time.
type Bounds struct {
	Connections          int
	ConnectionsOfAClient int
	RequestsOfAHost      int
	RequestsOfAClient    int
}

// DefaultBounds are those of the service. A connection takes two files at most, and some 20 KiB.
var DefaultBounds = Bounds{Connections: 8_192, ConnectionsOfAClient: 512, RequestsOfAHost: 1_024, RequestsOfAClient: 1_024}

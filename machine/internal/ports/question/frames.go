// Package question is portd's side of the protocol with the cell. It keeps leases while they are used, and cuts what
// the cell revokes.
package question

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

const (
	protocolVersion = 3
	frameMax        = 64 << 10
)

// Exactly one field is set.
type sent struct {
	Hello   *helloFrame   `json:"hello,omitempty"`
	Ask     *askFrame     `json:"ask,omitempty"`
	Idle    *idleFrame    `json:"idle,omitempty"`
	Busy    *leaseFrame   `json:"busy,omitempty"`
	Count   *countFrame   `json:"count,omitempty"`
	Release *releaseFrame `json:"release,omitempty"`
	Abort   *abortFrame   `json:"abort,omitempty"`
	Tally   *Tally        `json:"tally,omitempty"`
	Settled *settleFrame  `json:"settled,omitempty"`
	Look    *lookFrame    `json:"look,omitempty"`

	written chan struct{} // not sent: closed when all earlier frames are written
}

type helloFrame struct {
	Version  int    `json:"version"`
	PortHost string `json:"port_host"`
}

type askFrame struct {
	ID         uint64          `json:"id"`
	HostID     string          `json:"host_id"`
	Port       int             `json:"port"`
	Credential door.Credential `json:"credential"`
	WebSocket  bool            `json:"websocket"`
	Method     string          `json:"method"`
	Client     string          `json:"client"`
}

type idleFrame struct {
	Lease   uint64 `json:"lease"`
	AtMsAgo int64  `json:"at_ms_ago"`
}

type leaseFrame struct {
	Lease uint64 `json:"lease"`
}

type countFrame struct {
	Lease         uint64 `json:"lease"`
	Requests      int64  `json:"requests"`
	ReceivedBytes int64  `json:"received_bytes"` // from visitors
	SentBytes     int64  `json:"sent_bytes"`     // to visitors
}

type releaseFrame struct {
	Lease     uint64 `json:"lease"`
	UsedMsAgo int64  `json:"used_ms_ago"`
}

type abortFrame struct {
	ID uint64 `json:"id"`
}

type received struct {
	Grant    *grantFrame    `json:"grant"`
	Known    *knownFrame    `json:"known"`
	Ready    *readyFrame    `json:"ready"`
	Redirect *redirectFrame `json:"redirect"`
	Refuse   *refuseFrame   `json:"refuse"`
	Cut      *cutFrame      `json:"cut"`
	Settle   *settleFrame   `json:"settle"`

	Listeners *listenersFrame `json:"listeners"`
}

type grantFrame struct {
	ID          uint64 `json:"id"`
	Lease       uint64 `json:"lease"`
	Address     string `json:"address"`
	Port        int    `json:"port"`
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
	ExpiresInMs *int64 `json:"expires_in_ms"`
}

// The workspace is not running yet.
type knownFrame struct {
	ID uint64 `json:"id"`
}

type readyFrame struct {
	Lease   uint64 `json:"lease"`
	Address string `json:"address"`
	Epoch   int64  `json:"epoch"`
}

type redirectFrame struct {
	ID            uint64 `json:"id"`
	Path          string `json:"path"`
	Cookie        string `json:"cookie"`
	MaxAgeSeconds int    `json:"max_age_seconds"`
}

type refuseFrame struct {
	ID uint64 `json:"id"`
	door.Refusal
}

// cutFrame may also answer busy.
type cutFrame struct {
	Lease uint64 `json:"lease"`
	door.Refusal
}

// portd answers when all cut streams have ended.
type settleFrame struct {
	ID uint64 `json:"id"`
}

type lookFrame struct {
	ID    uint64 `json:"id"`
	Lease uint64 `json:"lease"`
}

// null addresses: the machine cannot say.
type listenersFrame struct {
	ID        uint64   `json:"id"`
	Addresses []string `json:"addresses"`
}

var errProtocol = errors.New("the cell sent a frame that is none")

func readFrame(from *bufio.Reader) (received, error) {
	var frame received
	line, err := from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return frame, fmt.Errorf("%w: it is too long", errProtocol)
	}
	if err != nil {
		return frame, err
	}
	if err := json.Unmarshal(line, &frame); err != nil {
		return frame, fmt.Errorf("%w: %w", errProtocol, err)
	}
	if frame == (received{}) {
		return frame, errProtocol
	}
	return frame, nil
}

func (f sent) line() ([]byte, error) {
	text, err := json.Marshal(f)
	if err == nil && len(text) >= frameMax {
		err = errors.New("a frame for the cell is too long")
	}
	return append(text, '\n'), err
}

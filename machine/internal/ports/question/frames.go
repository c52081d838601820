// Package question is portd's side of the protocol with the cell. It holds leases while they are used, and cuts streams
// whose lease the cell revokes. contract/internal/ports.ts has the frames; `npm run wire` writes the structs from it.
package question

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
)

// sent is one frame to the cell. Exactly one field is set.
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

	written chan struct{} // no frame: closed when all earlier frames are written
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

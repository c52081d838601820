package proxy

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/door"
	"github.com/berth-dev/berth/machine/internal/ports/question"
)

const (
	lookPause   = 250 * time.Millisecond
	suspectPoll = 100 * time.Millisecond // retry interval while the app listens elsewhere
	// A starting app may listen on loopback first, so it is refused only if it still listens there after this time.
	settledAfter = 500 * time.Millisecond
	addressesMax = 3 // maximum of addresses in a message
)

type whereabouts struct {
	use     *question.Use
	pending chan finding // result of the pending look; nil: none is pending
	next    time.Time    // time of the next look
	since   time.Time    // since when the app listens on another address; zero: it does not
}

type finding struct {
	began     time.Time
	addresses []netip.Addr
}

func newWhereabouts(use *question.Use) *whereabouts { return &whereabouts{use: use} }

// A look counts at the next refused connection, which proves that the port was unreachable after the look, too.
func (w *whereabouts) refused(ctx context.Context) *door.Refusal {
	if w.pending != nil {
		select {
		case found := <-w.pending:
			w.pending = nil
			if refusal := w.judge(found); refusal != nil {
				return refusal
			}
		default:
			return nil
		}
	}
	if now := time.Now(); now.After(w.next) {
		w.next = now.Add(lookPause)
		pending := make(chan finding, 1)
		w.pending = pending
		go func() { pending <- finding{now, w.use.Listeners(ctx)} }()
	}
	return nil
}

func (w *whereabouts) pause(otherwise time.Duration) time.Duration {
	if w.since.IsZero() {
		return otherwise
	}
	return min(otherwise, suspectPoll)
}

func (w *whereabouts) judge(found finding) *door.Refusal {
	if !isElsewhere(found.addresses, w.use.Target.Address) {
		w.since = time.Time{}
		return nil
	}
	if w.since.IsZero() {
		w.since = found.began
	}
	if found.began.Sub(w.since) < settledAfter {
		return nil
	}
	return listensElsewhere(found.addresses, w.use.Target.Port)
}

// isElsewhere ignores an IPv6 wildcard: IPv4 connections were refused, so that listener accepts only IPv6.
func isElsewhere(addresses []netip.Addr, machine string) bool {
	for _, address := range addresses {
		if address == netip.IPv4Unspecified() || address.String() == machine {
			return false
		}
	}
	return len(addresses) > 0
}

func listensElsewhere(addresses []netip.Addr, port int) *door.Refusal {
	var places []string
	for _, address := range addresses[:min(len(addresses), addressesMax)] {
		places = append(places, netip.AddrPortFrom(address, uint16(port)).String())
	}
	refusal := door.Refuse("app_listens_elsewhere")
	refusal.Message = "Your server listens on " + strings.Join(places, " and ") + " only, where no visitor reaches it. " +
		"Let it listen on 0.0.0.0:" + strconv.Itoa(port) + ": most servers take --host 0.0.0.0."
	return refusal
}

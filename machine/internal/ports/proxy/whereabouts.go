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
	suspectPoll = 100 * time.Millisecond // between two connections while an app is seen elsewhere
	// settledAfter is how long an app is seen elsewhere before its visitor is told: one that starts may listen on loopback first.
	settledAfter = 500 * time.Millisecond
	addressesMax = 3 // of a message
)

// whereabouts follows on which addresses an app listens while its port refuses connections.
type whereabouts struct {
	use     *question.Use
	pending chan finding // of the look under way; nil: there is none
	next    time.Time    // when to look again
	since   time.Time    // since when the app is seen elsewhere; zero: it is not
}

type finding struct {
	began     time.Time
	addresses []netip.Addr
}

func newWhereabouts(use *question.Use) *whereabouts { return &whereabouts{use: use} }

// refused is called after each refused connection. It returns why no other can succeed, or nil. It does not wait: an answer counts at the
// next refused connection, which proves that the app could not be reached after it was seen elsewhere.
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

// pause is how long to wait before the next connection, of what it would be otherwise.
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

// isElsewhere says whether something listens, and only where no connection from outside arrives. A wildcard of IPv6 counts as elsewhere:
// it is asked about after connections of IPv4 were refused, so it takes IPv6 alone.
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

package question

import (
	"crypto/sha256"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

const (
	refusedFor      = time.Second
	refusedMax      = 4_096
	perClient       = 50 // questions a second
	perHost         = 100
	burstSeconds    = 2
	budgetsMax      = 10_000
	budgetForgotten = 10 * time.Second
)

// negatives remembers for a moment what was refused for its credential: the same request costs the cell nothing then.
type negatives struct {
	entries map[[32]byte]negative
}

type negative struct {
	refusal *door.Refusal
	until   time.Time
}

// digest, so that what is remembered is small and holds no credential.
func (k leaseKey) digest() [32]byte {
	return sha256.Sum256([]byte(k.place.HostID + " " + strconv.Itoa(k.place.Port) + " " + string(k.credential.Kind) + " " + k.credential.Value))
}

func (n *negatives) find(key leaseKey, now time.Time) *door.Refusal {
	if len(n.entries) == 0 {
		return nil
	}
	if entry, found := n.entries[key.digest()]; found && now.Before(entry.until) {
		return entry.refusal
	}
	return nil
}

// add keeps refusals with 401 and 404 alone: a credential that is not valid stays so. It keeps no other refusal, since a machine may run in
// the next moment.
func (n *negatives) add(key leaseKey, refusal *door.Refusal, now time.Time) {
	if refusal.Status != 401 && refusal.Status != 404 || len(n.entries) >= refusedMax {
		return
	}
	if n.entries == nil {
		n.entries = map[[32]byte]negative{}
	}
	n.entries[key.digest()] = negative{refusal, now.Add(refusedFor)}
}

func (n *negatives) forget(now time.Time) {
	for key, entry := range n.entries {
		if now.After(entry.until) {
			delete(n.entries, key)
		}
	}
}

// budgets bound how often the cell is asked, for each client first: one alone cannot use up what a host has.
type budgets struct {
	clients, hosts map[string]*budget
}

type budget struct {
	*rate.Limiter
	used time.Time
}

func (b *budgets) take(question Question, now time.Time) bool {
	if b.clients == nil {
		b.clients, b.hosts = map[string]*budget{}, map[string]*budget{}
	}
	return takeFrom(b.clients, question.Client, perClient, now) && takeFrom(b.hosts, question.Place.HostID, perHost, now)
}

func takeFrom(all map[string]*budget, name string, perSecond int, now time.Time) bool {
	found := all[name]
	if found == nil {
		if len(all) >= budgetsMax {
			return false
		}
		found = &budget{Limiter: rate.NewLimiter(rate.Limit(perSecond), perSecond*burstSeconds)}
		all[name] = found
	}
	found.used = now
	return found.AllowN(now, 1)
}

func (b *budgets) forget(now time.Time) {
	for _, all := range []map[string]*budget{b.clients, b.hosts} {
		for name, each := range all {
			if now.Sub(each.used) > budgetForgotten {
				delete(all, name)
			}
		}
	}
}

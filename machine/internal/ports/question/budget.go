package question

import (
	"crypto/sha256"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/berth-dev/berth/machine/internal/ports/door"
)

const (
	refusedFor    = time.Second
	refusedMax    = 4_096
	perClient     = 50  // questions a second of one client, about credentials that were not accepted before
	perHost       = 100 // questions a second about accepted credentials, by all visitors of one workspace
	burstSeconds  = 2
	budgetsMax    = 10_000
	provenMax     = 20_000
	provenOfAHost = 1_024
)

type negatives struct {
	entries map[[32]byte]negative
}

type negative struct {
	refusal *door.Refusal
	until   time.Time
}

// digest is the key of caches, so that they are small and contain no credentials.
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

// Only refusals of invalid credentials are stored, because these remain invalid. Other reasons may end at any moment.
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

// budgets limit the questions to the cell. An unknown credential is charged only to the client, so it uses nothing of
// the workspace that it names.
type budgets struct {
	clients *recent[netip.Addr, *rate.Limiter]
	hosts   *recent[string, *rate.Limiter]
	good    proven
}

func newBudgets() budgets {
	return budgets{newRecent[netip.Addr, *rate.Limiter](budgetsMax), newRecent[string, *rate.Limiter](budgetsMax), proven{}}
}

func (b *budgets) take(question Question, key leaseKey, now time.Time) bool {
	if b.good.has(key) {
		return takeFrom(b.hosts, question.Place.HostID, perHost, now)
	}
	return takeFrom(b.clients, door.ClientGroup(question.Client), perClient, now)
}

func takeFrom[K comparable](all *recent[K, *rate.Limiter], of K, perSecond int, now time.Time) bool {
	limiter := all.use(of, func() *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perSecond*burstSeconds) })
	return limiter.AllowN(now, 1)
}

// proven lists accepted credentials. At the limit, the workspace with the most loses its least recently used ones.
type proven struct {
	hosts map[string]*recent[[32]byte, struct{}]
	many  int
}

func (p *proven) has(key leaseKey) bool {
	host := p.hosts[key.place.HostID]
	return host != nil && host.has(key.digest())
}

func (p *proven) remember(key leaseKey) {
	if p.hosts == nil {
		p.hosts = map[string]*recent[[32]byte, struct{}]{}
	}
	if p.many >= provenMax {
		p.makeRoom()
	}
	host := p.hosts[key.place.HostID]
	if host == nil {
		host = newRecent[[32]byte, struct{}](provenOfAHost)
		p.hosts[key.place.HostID] = host
	}
	before := len(host.found)
	host.use(key.digest(), func() struct{} { return struct{}{} })
	p.many += len(host.found) - before
}

func (p *proven) forget(key leaseKey) {
	if host := p.hosts[key.place.HostID]; host != nil && host.has(key.digest()) {
		host.drop(key.digest())
		p.left(key.place.HostID, host, 1)
	}
}

func (p *proven) makeRoom() {
	most := ""
	for id, host := range p.hosts {
		if most == "" || len(host.found) > len(p.hosts[most].found) {
			most = id
		}
	}
	host := p.hosts[most]
	going := (len(host.found) + 1) / 2 // half, so that the next search comes much later
	for range going {
		host.dropOldest()
	}
	p.left(most, host, going)
}

func (p *proven) left(id string, host *recent[[32]byte, struct{}], many int) {
	p.many -= many
	if len(host.found) == 0 {
		delete(p.hosts, id)
	}
}

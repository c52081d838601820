package secretproxy

import (
	"net/netip"
	"sync"
)

type load [measures]int

const (
	connections = iota // connections of machines
	bound              // connections whose TLS ends here
	requests           // requests that are not answered in full
	headBytes          // bytes of these requests' heads, as received and as sent
	onward             // connections to hosts of secrets
	measures
)

// TestBoundsTogetherFitTheProcess multiplies these limits by their costs.
var (
	loadEach     = load{connections: 256, bound: 128, requests: 256, headBytes: 4 << 20, onward: 192}
	loadTogether = load{connections: 2048, bound: 384, requests: 768, headBytes: 24 << 20, onward: 384}
)

// budget limits what machines use. At a total limit, the machine with the most loses a connection to a machine with
// less: its largest, or of equals the longest idle. So each machine gets at least an equal share.
type budget struct {
	together load

	mu       sync.Mutex
	all      load
	machines map[netip.Addr]*holding
}

type holding struct {
	load  load
	flows map[*flow]*load
}

func newBudget() *budget { return &budget{together: loadTogether, machines: map[netip.Addr]*holding{}} }

const filesKept = 256

// fit reduces the connections to the available file descriptors. Each connection uses one for the machine's end and one
// for the server's.
func (b *budget) fit(files int) {
	left := max(files-filesKept-b.together[onward], 0)
	b.together[connections] = min(b.together[connections], left/2)
}

func (b *budget) take(f *flow, more load) bool {
	cut, ok := b.decide(f, more)
	for _, one := range cut {
		abortFlow(one) // after the lock is released, because abortFlow takes it
	}
	return ok
}

func (b *budget) decide(f *flow, more load) (cut []*flow, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.machines[f.machine]
	if mine == nil {
		mine = &holding{flows: map[*flow]*load{}}
	}
	held := mine.flows[f]
	if held == nil && more[connections] == 0 {
		return nil, false // the connection was cut
	}
	for m, n := range more {
		if mine.load[m]+n > loadEach[m] {
			return nil, false
		}
	}
	for m, n := range more {
		for n > 0 && b.all[m]+n > b.together[m] {
			victim := b.most(m, mine.load[m]+n)
			if victim == nil {
				return cut, false
			}
			b.drop(victim)
			cut = append(cut, victim)
		}
	}
	if held == nil {
		held = &load{}
		mine.flows[f] = held
		b.machines[f.machine] = mine
	}
	for m, n := range more {
		held[m], mine.load[m], b.all[m] = held[m]+n, mine.load[m]+n, b.all[m]+n
	}
	return cut, true
}

func (b *budget) most(m, than int) (found *flow) {
	var first *holding
	for _, one := range b.machines {
		if one.load[m] > than {
			first, than = one, one.load[m]
		}
	}
	if first == nil {
		return nil
	}
	for f, held := range first.flows {
		if held[m] > 0 && (found == nil || held[m] > first.flows[found][m] || held[m] == first.flows[found][m] && f.used.Load() < found.used.Load()) {
			found = f
		}
	}
	return found
}

// give releases a part of the load. A dropped connection has released all of its load already.
func (b *budget) give(f *flow, less load) {
	b.mu.Lock()
	defer b.mu.Unlock()
	mine := b.machines[f.machine]
	if mine == nil || mine.flows[f] == nil {
		return
	}
	for m, n := range less {
		mine.flows[f][m], mine.load[m], b.all[m] = mine.flows[f][m]-n, mine.load[m]-n, b.all[m]-n
	}
}

func (b *budget) leave(f *flow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(f)
}

func (b *budget) drop(f *flow) {
	mine := b.machines[f.machine]
	if mine == nil || mine.flows[f] == nil {
		return
	}
	for m, n := range mine.flows[f] {
		mine.load[m], b.all[m] = mine.load[m]-n, b.all[m]-n
	}
	delete(mine.flows, f)
	if len(mine.flows) == 0 {
		delete(b.machines, f.machine)
	}
}

func (b *budget) flows() (found []*flow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.machines {
		for f := range one.flows {
			found = append(found, f)
		}
	}
	return found
}

func (b *budget) flowsOf(machine netip.Addr) (found []*flow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mine := b.machines[machine]; mine != nil {
		for f := range mine.flows {
			found = append(found, f)
		}
	}
	return found
}

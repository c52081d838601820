package secretproxy

import (
	"net/netip"
	"sync"
)

// load is what connections hold of what the process has little of.
type load [measures]int

const (
	connections = iota // of machines
	bound              // those whose TLS ends here
	requests           // that are not answered in full
	headBytes          // of these requests, as they came and as they are sent
	onward             // connections to hosts of secrets
	measures
)

// Bounds of one machine, and of all machines together. TestBoundsTogetherFitTheProcess multiplies them by what each costs.
var (
	loadEach     = load{connections: 256, bound: 128, requests: 256, headBytes: 4 << 20, onward: 192}
	loadTogether = load{connections: 2048, bound: 384, requests: 768, headBytes: 24 << 20, onward: 384}
)

// budget keeps every machine within its bounds. When all machines together have reached theirs, the machine with the most gives way to one with less:
// of its connections the one with the most is cut, and of equal ones the one that has rested longest. So each machine gets an even share at least.
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

// filesKept are those that are no connection's, and those of connections that are closing.
const filesKept = 256

// fit keeps connections within the files that the process may have: one for the machine's end of each, and one for the server's.
func (b *budget) fit(files int) {
	left := max(files-filesKept-b.together[onward], 0)
	b.together[connections] = min(b.together[connections], left/2)
}

// take says whether a connection may hold more.
func (b *budget) take(f *flow, more load) bool {
	cut, ok := b.decide(f, more)
	for _, one := range cut {
		abortFlow(one) // outside of the lock: it gives back what it holds
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
		return nil, false // it was cut
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

// most is a connection of the machine that has the most, where that is more than so much.
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

// give gives back what a connection took. One that was dropped has given all back already.
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

// leave gives back all that a connection holds.
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

// flows are the connections of all machines.
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

// flowsOf are the connections of a machine.
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

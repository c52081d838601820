package network

import (
	"os"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

const (
	// Packets that one machine may send in a second, and half as many at once. A segment of 64 KiB counts once. Beyond them it would cost its neighbours
	// the time of processors, which the kernel charges to nobody.
	packetsPerSecond = 100_000
	// Datagrams to the resolver, which reads also those that it does not answer.
	questionsPerSecond = 1000
	questionsBurst     = 2000
	questionStreamsMax = 256 // TCP connections to it, those that ended in the last two minutes included

	conntrackMaxFile    = "/proc/sys/net/netfilter/nf_conntrack_max"
	conntrackMaxUnknown = 65_536
	// Machines share one part in so many of what the computer can track: a quarter.
	conntrackShare = 4
	// paceShare is what part of its tracked connections one machine may begin by TCP in a minute. With the minutes until the kernel forgets them it
	// has two and a half times its part at most, and all machines together less than two thirds of the table.
	paceShare = 2
)

// flowsMax are the bounds of tracked connections of one machine at a time. The one that holds is the first
// with which all connected machines together stay within their part of what the computer can track. Where none does, the last one holds.
var flowsMax = [...]int{4096, 1024, 256, 64}

// limits are the sets that count what machines send. Each bound of flows has its own, and all of them stay: a count is never lost when
// another bound holds, so no machine ever has more flows than the sum of the bounds.
type limits struct {
	packets, questions, streams *nftables.Set
	flows, proxied              map[int]*nftables.Set
	flowsPace, proxiedPace      map[int]*nftables.Set
	newFlows, newProxied        *nftables.Chain
	flowsOfEach                 int // the bound that holds
}

func (l *limits) write(conn *nftables.Conn, table *nftables.Table, flowsOfEach int) error {
	count := func(name string) *nftables.Set {
		return &nftables.Set{Table: table, Name: name, KeyType: nftables.TypeIPAddr, Dynamic: true, Size: machinesMax}
	}
	l.packets, l.questions, l.streams = count("packets"), count("questions"), count("streams")
	l.flows, l.proxied = map[int]*nftables.Set{}, map[int]*nftables.Set{}
	l.flowsPace, l.proxiedPace = map[int]*nftables.Set{}, map[int]*nftables.Set{}
	sets := []*nftables.Set{l.packets, l.questions, l.streams}
	for _, bound := range flowsMax {
		l.flows[bound] = count("flows_" + strconv.Itoa(bound))
		l.proxied[bound] = count("proxied_" + strconv.Itoa(bound))
		l.flowsPace[bound] = count("flows_pace_" + strconv.Itoa(bound))
		l.proxiedPace[bound] = count("proxied_pace_" + strconv.Itoa(bound))
		sets = append(sets, l.flows[bound], l.proxied[bound], l.flowsPace[bound], l.proxiedPace[bound])
	}
	for _, set := range sets {
		if err := conn.AddSet(set, nil); err != nil {
			return err
		}
	}
	l.newFlows = conn.AddChain(&nftables.Chain{Table: table, Name: "new_flows"})
	l.newProxied = conn.AddChain(&nftables.Chain{Table: table, Name: "new_proxied"})
	l.writeFlows(conn, flowsOfEach)
	return nil
}

func (l *limits) writeFlows(conn *nftables.Conn, flowsOfEach int) {
	l.flowsOfEach = flowsOfEach
	write := func(chain *nftables.Chain, list ...words) {
		for _, exprs := range list {
			conn.AddRule(&nftables.Rule{Table: chain.Table, Chain: chain, Exprs: exprs})
		}
	}
	// A TCP connection that has ended is tracked for two minutes, and the kernel does not count it as one. Of other protocols it counts all it tracks.
	begun := func(pace *nftables.Set, most int) words {
		return rule(protocol(unix.IPPROTO_TCP), fasterThan(pace, uint64(most), expr.LimitTimeMinute, uint32(most)), drop())
	}
	write(l.newFlows, rule(over(l.flows[flowsOfEach], uint32(flowsOfEach)), drop()), begun(l.flowsPace[flowsOfEach], flowsOfEach/paceShare), accept())
	proxied := flowsOfEach / proxiedShare
	write(l.newProxied, rule(over(l.proxied[flowsOfEach], uint32(proxied)), drop()), begun(l.proxiedPace[flowsOfEach], proxied), accept())
}

// fitFlows makes the bound hold that fits the number of connected machines, as a part of the change by which it became another one.
func (r *Router) fitFlows(conn *nftables.Conn) {
	limits := &r.rules.limits
	if fitting := r.flowsOfEach(); fitting != limits.flowsOfEach {
		conn.FlushChain(limits.newFlows)
		conn.FlushChain(limits.newProxied)
		limits.writeFlows(conn, fitting)
	}
}

// flowsOfEach is what each of the connected machines may have tracked at a time.
func (r *Router) flowsOfEach() int {
	r.mu.RLock()
	connected := 0
	for _, s := range r.slots {
		if s.connected {
			connected++
		}
	}
	r.mu.RUnlock()
	together := r.conntrackMax() / conntrackShare
	for _, bound := range flowsMax {
		if bound*connected <= together {
			return bound
		}
	}
	return flowsMax[len(flowsMax)-1]
}

// conntrackMax is what this computer tracks of everybody, its own and its containers' connections included.
func (r *Router) conntrackMax() int {
	if r.config.conntrackMax > 0 {
		return r.config.conntrackMax
	}
	text, err := os.ReadFile(conntrackMaxFile)
	if err != nil {
		return conntrackMaxUnknown // nothing is tracked yet
	}
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || most <= 0 {
		return conntrackMaxUnknown
	}
	return most
}

func (r *Router) packetsPerSecond() uint64 {
	if r.config.packetsPerSecond > 0 {
		return r.config.packetsPerSecond
	}
	return packetsPerSecond
}

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
	// The limit of each machine; a segment of 64 KiB counts as one packet. More packets would take neighbours' CPU
	// time, which the kernel charges to no machine.
	packetsPerSecond = 100_000
	// The resolver reads even datagrams that it does not answer, so the kernel limits them.
	questionsPerSecond = 1000
	questionsBurst     = 2000
	questionStreamsMax = 256 // TCP connections to the resolver, including those that ended in the last two minutes

	conntrackMaxFile    = "/proc/sys/net/netfilter/nf_conntrack_max"
	conntrackMaxUnknown = 65_536
	// Machines may use a quarter of the connection tracking table.
	conntrackShare = 4
	// A machine may begin half its limit of TCP connections a minute, and the kernel tracks ended connections for two
	// more minutes. So a machine has at most 2.5 times its limit, and all machines less than two thirds of the table.
	paceShare = 2
)

// flowsMax lists the possible limits. The largest that keeps all connected machines within their share applies, or else
// the last.
var flowsMax = [...]int{4096, 1024, 256, 64}

// limits has sets for every limit of flowsMax, so that a change of the limit loses no count. A machine never has more
// flows than the limits' sum.
type limits struct {
	packets, questions, streams *nftables.Set
	flows, proxied              map[int]*nftables.Set
	flowsPace, proxiedPace      map[int]*nftables.Set
	newFlows, newProxied        *nftables.Chain
	flowsOfEach                 int
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
	// The connlimit expression does not count ended TCP connections, which are tracked for two minutes. So new TCP
	// connections have a rate limit. Of other protocols it counts every flow.
	begun := func(pace *nftables.Set, most int) words {
		return rule(protocol(unix.IPPROTO_TCP), fasterThan(pace, uint64(most), expr.LimitTimeMinute, uint32(most)), drop())
	}
	write(l.newFlows, rule(over(l.flows[flowsOfEach], uint32(flowsOfEach)), drop()), begun(l.flowsPace[flowsOfEach], flowsOfEach/paceShare), accept())
	proxied := flowsOfEach / proxiedShare
	write(l.newProxied, rule(over(l.proxied[flowsOfEach], uint32(proxied)), drop()), begun(l.proxiedPace[flowsOfEach], proxied), accept())
}

// fitFlows adapts the limit in the transaction that changes the number of connected machines.
func (r *Router) fitFlows(conn *nftables.Conn) {
	limits := &r.rules.limits
	if fitting := r.flowsOfEach(); fitting != limits.flowsOfEach {
		conn.FlushChain(limits.newFlows)
		conn.FlushChain(limits.newProxied)
		limits.writeFlows(conn, fitting)
	}
}

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

// conntrackMax is the size of the tracking table, which the host and its containers use, too.
func (r *Router) conntrackMax() int {
	if r.config.conntrackMax > 0 {
		return r.config.conntrackMax
	}
	text, err := os.ReadFile(conntrackMaxFile)
	if err != nil {
		return conntrackMaxUnknown // connection tracking is not loaded yet
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

package secretproxy

import (
	"bufio"
	"encoding/json"
	"net"
	"net/netip"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const LineBytesMax = 1 << 20

const linkTimeout = 5 * time.Second

// FromHost tells the proxy whose secrets each machine gets; null: none. The machine's open connections end, because an
// older policy may have allowed them.
type FromHost struct {
	ID       uint64                         `json:"id"`
	Machines map[netip.Addr]*wire.SecretsOf `json:"machines"`
}

type ToHost struct {
	Ack uint64 `json:"ack"`
}

// listenToHost applies hostd's messages. If hostd has ended, the last settings remain in force.
func (p *Proxy) listenToHost(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 64<<10), LineBytesMax)
	for lines.Scan() {
		var message FromHost
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			return // after an invalid message, no later one can be trusted
		}
		for machine, of := range message.Machines {
			p.become(machine, of)
		}
		text, err := json.Marshal(ToHost{Ack: message.ID})
		if err != nil || conn.SetWriteDeadline(time.Now().Add(linkTimeout)) != nil {
			return
		}
		if _, err := conn.Write(append(text, '\n')); err != nil {
			return
		}
	}
}

func (p *Proxy) become(machine netip.Addr, of *wire.SecretsOf) {
	p.mu.Lock()
	if before, known := p.machines[machine]; known && (of == nil || *of != before) {
		p.answers.forget(before)
	}
	if of == nil {
		delete(p.machines, machine)
	} else {
		p.machines[machine] = *of
	}
	cut := p.budget.flowsOf(machine)
	p.mu.Unlock()
	for _, flow := range cut {
		flow.Close()
	}
}

func (p *Proxy) secretsOf(machine netip.Addr) (wire.SecretsOf, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, known := p.machines[machine]
	return of, known
}

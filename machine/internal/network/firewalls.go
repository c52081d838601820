package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"
)

const (
	FirewallAuto   = "auto"   // Berth adds rules to other firewalls that let machines' packets through
	FirewallManual = "manual" // Berth changes no other firewall
)

const (
	FirewallOpen   = "open"   // rules of this instance let machines' packets through
	FirewallClosed = "closed" // the rules could not be added
	FirewallByHand = "manual" // the operator writes the rules
)

// Firewall is another program's rules, which can drop forwarded packets: a packet must pass every table.
type Firewall struct {
	Name   string
	State  string
	Why    string
	Recipe []string // commands that let machines' packets through, for manual use
}

// doorway is a firewall in which Berth can add rules. Some of the rules may exist when open is called.
type doorway interface {
	name() string
	isOpen() (bool, error)
	open() error
	recipe() []string
}

type firewalls struct {
	mu   sync.Mutex
	list []Firewall
	said map[string]Firewall // last logged state, by name
}

// Firewalls returns the results of the last check. It is empty before the first check, and if the uplink is not the
// host.
func (r *Router) Firewalls() []Firewall {
	r.firewalls.mu.Lock()
	defer r.firewalls.mu.Unlock()
	return slices.Clone(r.firewalls.list)
}

// keepFirewalls checks periodically, because legacy iptables sends no events. It runs in the background, because
// external programs can be slow.
func (r *Router) keepFirewalls(ctx context.Context, rewritten <-chan struct{}) {
	if r.config.Firewall == FirewallManual {
		r.logClosing(r.closeFirewalls())
	}
	for {
		if err := r.lookAtFirewalls(); err != nil {
			slog.Error("the firewalls of this host cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-rewritten:
		case <-time.After(keepEvery):
		}
	}
}

func (r *Router) lookAtFirewalls() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	found, err := r.findDoorways(conn)
	if err != nil {
		return err
	}
	list := make([]Firewall, 0, len(found))
	for _, each := range found {
		list = append(list, r.pass(each))
	}
	r.firewalls.mu.Lock()
	defer r.firewalls.mu.Unlock()
	r.firewalls.list = list
	return nil
}

func (r *Router) findDoorways(conn *nftables.Conn) ([]doorway, error) {
	found, err := r.findNftChains(conn)
	if err != nil {
		return nil, err
	}
	legacy, err := r.findLegacy()
	if err != nil {
		return nil, err
	}
	return append(found, legacy...), nil
}

func (r *Router) pass(d doorway) Firewall {
	found := Firewall{Name: d.name(), Recipe: d.recipe()}
	if r.config.Firewall == FirewallManual {
		found.State = FirewallByHand
		r.announce(found, false)
		return found
	}
	open, err := d.isOpen()
	if err == nil && !open {
		err = d.open()
	}
	found.State = FirewallOpen
	if err != nil {
		found.State, found.Why = FirewallClosed, err.Error()
	}
	r.announce(found, !open)
	return found
}

func (r *Router) announce(found Firewall, changed bool) {
	r.firewalls.mu.Lock()
	defer r.firewalls.mu.Unlock()
	if r.firewalls.said == nil {
		r.firewalls.said = map[string]Firewall{}
	}
	last := r.firewalls.said[found.Name]
	r.firewalls.said[found.Name] = found
	same := last.State == found.State && last.Why == found.Why
	log := slog.With("firewall", found.Name, "link", r.name("h"))
	switch {
	case found.State == FirewallClosed && !same:
		log.Error("a firewall of this host may drop what machines send, and could not be changed: see npm run admin -- firewall", "error", found.Why)
	case found.State == FirewallByHand && !same:
		log.Warn("a firewall of this host may drop what machines send, and is yours to change: see npm run admin -- firewall")
	case found.State == FirewallOpen && !same:
		log.Info("rules of this instance let machines' packets through a firewall of this host; they go with the network")
	case found.State == FirewallOpen && changed:
		log.Warn("a firewall of this host was rewritten, and lets machines' packets through again")
	}
}

func (r *Router) closeFirewalls() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	tables, err := conn.ListTables()
	if err != nil {
		return fmt.Errorf("read the host's tables: %w", err)
	}
	failed := errors.Join(r.closeNft(conn), r.closeLegacy())
	if slices.ContainsFunc(tables, isFirewalld) {
		failed = errors.Join(failed, firewalld{r.name("h")}.close())
	}
	return failed
}

func (r *Router) logClosing(err error) {
	if err != nil {
		slog.Error("rules of Berth in a firewall of this host cannot be removed", "link", r.name("h"), "error", err)
	}
}

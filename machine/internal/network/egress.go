package network

import (
	"errors"
	"log/slog"
	"net/netip"
	"reflect"

	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// SetEgress applies the policy to new and existing connections before it returns. Before Connect, it only stores the
// policy.
func (r *Router) SetEgress(name string, p wire.HostEgress) error {
	if err := egress.Check(p); err != nil {
		return err
	}
	return r.withSlot(name, func(s *slot) error {
		last := s.outlet
		if reflect.DeepEqual(last.matcher.Policy, p) && !last.failed {
			return nil
		}
		next := last.with(p)
		next.counts = next.counts || s.connected && !next.matcher.IsOpen()
		if err := r.writePolicy(s, next); err != nil {
			return err
		}
		err := r.replaceOutlet(s, last, next)
		if err != nil {
			r.remember(s, func() { s.outlet = last })
			err = errors.Join(err, r.writePolicy(s, last))
		}
		return err
	})
}

func (r *Router) replaceOutlet(s *slot, last, next outlet) error {
	if !s.connected || last.matcher.IsOpen() && next.matcher.IsOpen() && len(last.matcher.Policy.SecretPorts)+len(next.matcher.Policy.SecretPorts) == 0 {
		r.remember(s, func() { s.outlet = next })
		return nil
	}
	return r.alter(func() error {
		r.remember(s, func() { s.outlet = next })
		conn := r.rules.conn
		if err := r.removeElements(conn, s, last); err != nil {
			return err
		}
		if next.counts && !last.counts {
			if err := r.writeRefuser(conn, s); err != nil {
				return err
			}
		}
		if err := r.writeOutlet(conn, s, next); err != nil {
			return err
		}
		r.removeOwn(conn, s, last)
		return nil
	})
}

// remember changes the slot under the router's lock. The caller must hold the slot's lock.
func (r *Router) remember(s *slot, change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// alter reloads all rules after an error, because the kernel's rules and this process's state may differ.
func (r *Router) alter(do func() error) error {
	if err := r.rules.change(do); err != nil {
		return r.reload(err)
	}
	return nil
}

func (r *Router) Egress(name string) wire.EgressInForce {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.slots[name]
	if s == nil {
		return wire.EgressInForce{Revision: wire.EgressDefault, State: wire.EgressFailed}
	}
	state := wire.EgressEnforced
	if s.outlet.failed || r.rules.broken.Load() {
		state = wire.EgressFailed
	}
	return wire.EgressInForce{Revision: s.outlet.matcher.Policy.Revision, State: state}
}

func (r *Router) IsOpen(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.slots[name]
	return s != nil && s.outlet.matcher.IsOpen()
}

func (r *Router) Machine(name string) (netip.Addr, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.slots[name]; s != nil && s.index != nowhere {
		return r.address(s.index, 2), nil
	}
	return netip.Addr{}, ErrUnknown
}

// Restricted returns the policies of all machines except those with allow_all.
func (r *Router) Restricted() map[netip.Addr]wire.HostEgress {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found := map[netip.Addr]wire.HostEgress{}
	for _, s := range r.slots {
		if !s.outlet.matcher.IsOpen() {
			found[r.address(s.index, 2)] = s.outlet.matcher.Policy
		}
	}
	return found
}

func (r *Router) IsLetOut(machine netip.Addr) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.byIP[machine]
	return s != nil && s.connected
}

// OnRelease registers a function that gets each removed machine's address, before its reuse.
func (r *Router) OnRelease(tell func(netip.Addr)) { r.onRelease = tell }

// ReleaseInTurn makes Release hold the slot's lock from `turn`. A holder of that lock can publish a machine's address
// without a race with its reuse.
func (r *Router) ReleaseInTurn(turn func(slot string) (end func())) { r.releaseTurn = turn }

func (r *Router) connect(s *slot) error {
	r.remember(s, func() { s.connected, s.outlet.counts = true, !s.outlet.matcher.IsOpen() }) // set before the rules permit the machine to send
	err := r.alter(func() error {
		conn := r.rules.conn
		r.fitFlows(conn)
		if s.outlet.counts {
			if err := r.writeRefuser(conn, s); err != nil {
				return err
			}
		}
		if err := r.writeOutlet(conn, s, s.outlet); err != nil {
			return err
		}
		return conn.SetAddElements(r.rules.connected, element(r.key(s)))
	})
	if err != nil {
		r.remember(s, func() { s.connected, s.outlet.counts = false, false })
	}
	return err
}

func (r *Router) disconnect(s *slot) error {
	if !s.connected {
		return nil
	}
	outlet := s.outlet
	r.remember(s, func() { s.connected, s.outlet.counts, s.past, s.began = false, false, nil, nil })
	return r.alter(func() error {
		conn := r.rules.conn
		r.fitFlows(conn)
		err := joinFirst(conn.SetDeleteElements(r.rules.connected, element(r.key(s))), r.removeElements(conn, s, outlet))
		r.removeOwn(conn, s, outlet)
		if outlet.counts {
			err = errors.Join(err, r.removeRefuser(conn, s))
		}
		return err
	})
}

// reload replaces all rules, because another program may have changed any of them.
func (r *Router) reload(why error) error {
	slog.Warn("the rules of the machines' router are set again", "table", "ip "+r.table(), "error", why)
	for s, outlet := range r.connectedOutlets() {
		if outlet.counts {
			r.saveRefusals(s)
		}
	}
	err := r.loadRules()
	r.rules.broken.Store(err != nil)
	if err != nil {
		return errors.Join(why, err)
	}
	return nil
}

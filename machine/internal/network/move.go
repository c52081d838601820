package network

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
)

// ErrTaken means that the address is in use, or cannot be assigned to a machine.
var ErrTaken = errors.New("the address is not free")

// Move gives the slot another address, on the same link and socket. The sandbox must not have sent anything; the caller
// tells it the address.
func (r *Router) Move(name string, wanted Wish) (to Place, err error) {
	r.awaitLeft(wanted.Address)
	err = r.withSlot(name, func(s *slot) error {
		if s.connected {
			return errors.New("the machine is let out already")
		}
		index, err := r.claim(s, wanted)
		if err == nil && index != s.index {
			err = r.move(s, index)
		}
		to = r.place(s.index)
		return err
	})
	return to, err
}

const handOver = 50 * time.Millisecond

// awaitLeft waits for an address that another slot is releasing, so that a machine restored right after its stop gets
// its address back.
func (r *Router) awaitLeft(address netip.Addr) {
	r.mu.RLock()
	var left chan struct{}
	if s := r.byIP[address]; s != nil {
		left = s.left
	}
	r.mu.RUnlock()
	if left == nil {
		return
	}
	timer := time.NewTimer(cmp.Or(r.config.handOver, handOver))
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	}
}

// Leave makes machines that want the address wait for Release. The address rests after that: for a while, only its last
// owner can get it. owner "" means that no machine ran there, so the address does not rest.
func (r *Router) Leave(name, owner string) { r.leave(name, owner) }

func (r *Router) leave(name, owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.slots[name]
	if s == nil {
		return
	}
	if s.left == nil {
		s.left = make(chan struct{})
	}
	if owner != "" {
		s.owner = owner
	}
}

func (r *Router) claim(s *slot, wanted Wish) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index, ok := r.indexOf(wanted.Address)
	if ok && index == s.index {
		return index, nil
	}
	if !ok || r.used[index] || r.restsFrom(index, wanted.Owner, time.Now()) {
		return 0, fmt.Errorf("%s: %w", wanted.Address, ErrTaken)
	}
	r.used[index] = true
	return index, nil
}

// move adds the new address before it removes the old one, because the next hostd finds the slot by an address. The
// slot owns both addresses until the last step, and after a failure until its release.
func (r *Router) move(s *slot, index int) error {
	r.remember(s, func() { s.former = index })
	name := r.machineLink(s.link)
	link, err := r.links.LinkByName(name)
	if err != nil {
		return err
	}
	if err := r.links.AddrReplace(link, r.end(index)); err != nil {
		return fmt.Errorf("set address %s of %s: %w", r.end(index), name, err)
	}
	err = r.alter(func() error {
		last := element(r.key(s))
		r.remember(s, func() {
			delete(r.byIP, r.address(s.index, 2))
			s.index, s.former = index, s.index
			r.byIP[r.address(s.index, 2)] = s
		})
		set := r.rules.machines
		return joinFirst(r.rules.conn.SetDeleteElements(set, last), r.rules.conn.SetAddElements(set, element(r.key(s))))
	})
	if err != nil {
		return err
	}
	if err := r.links.AddrDel(link, r.end(s.former)); err != nil {
		return fmt.Errorf("take address %s of %s: %w", r.end(s.former), name, err)
	}
	r.remember(s, func() {
		delete(r.used, s.former)
		s.former = nowhere
	})
	return nil
}

func (r *Router) indexOf(address netip.Addr) (int, bool) {
	if !address.Is4() || !r.config.MachineNetwork.Contains(address) {
		return 0, false
	}
	index := (number(address) - number(r.config.MachineNetwork.Addr())) / addressesEach
	return index, index >= firstIndex && index < r.indexes() && r.address(index, 2) == address
}

func (r *Router) end(index int) *netlink.Addr {
	return &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(r.address(index, 1), prefixLen))}
}

func (r *Router) place(index int) Place {
	return Place{Name: inside, Address: netip.PrefixFrom(r.address(index, 2), prefixLen), Gateway: r.address(index, 1)}
}

// freeLink always finds a number, because there are as many numbers as addresses.
func (r *Router) freeLink(index int) int {
	for r.usedLinks[index] {
		if index++; index >= r.indexes() {
			index = firstIndex
		}
	}
	return index
}

func (r *Router) ends() (map[int][]netip.Addr, error) {
	var list []netlink.Addr
	var err error
	for range adoptRetries {
		list, err = r.links.AddrList(nil, netlink.FAMILY_V4)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read the addresses of machines' links: %w", err)
	}
	found := map[int][]netip.Addr{}
	for _, one := range list {
		if address, ok := netip.AddrFromSlice(one.IP.To4()); ok {
			found[one.LinkIndex] = append(found[one.LinkIndex], address)
		}
	}
	return found, nil
}

// indexesAt returns the slot's index and former index. Two addresses mean that a move was interrupted; none, that the
// setup was.
func (r *Router) indexesAt(ends []netip.Addr) (index, former int) {
	for _, end := range ends {
		if found, ok := r.indexOf(end.Next()); ok {
			index, former = found, index
		}
	}
	return index, former
}

// adoptBare adopts slots without an address. Their setup was interrupted, or they are of another network and are only
// removed.
func (r *Router) adoptBare(bare []*slot) error {
	for _, s := range bare {
		if s.index = s.link; !r.used[s.index] && r.slots[s.name] == nil {
			r.know(s)
			continue
		}
		if err := deleteLink(r.links, r.machineLink(s.link)); err != nil {
			return err
		}
	}
	return nil
}

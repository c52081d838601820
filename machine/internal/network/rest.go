package network

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Wish is an address that a guest knows as its own, and the owner of its machine.
type Wish struct {
	Address netip.Addr
	Owner   string
}

// UnknownOwner is for Leave where nothing says whose machine ran in the slot: its address rests from every machine.
const UnknownOwner = "?"

// An address that a machine has left rests from the machines of all other owners: parts of the service act on the old owner for a while, and
// what they send must not reach another tenant. Addresses are given out in turn, so that one rests for restFor wherever others are free. Where
// none is, the one that has rested for longest is given away, but never before restLeast, and a start waits for that: it fails neither, nor
// does a tenant who starts machines all the time shorten the rest of another tenant's address. What must be over within restLeast:
//
//   - the cell hears of the machine's death: its way to hostd is open again after 2 s at most, and then it compares;
//   - a link of the cell that has not heard it: 5 tries of 2.2 s;
//   - an answer of the resolver under way: 5 s;
//   - connections that wait for a proxy of secrets which has died: 10 s until the next one, which closes those of addresses without secrets.
const (
	restFor   = 60 * time.Second
	restLeast = 15 * time.Second
	// restLook is how often a start looks whether another address has become free meanwhile.
	restLook = 250 * time.Millisecond
)

// rested is of an address that a machine has left.
type rested struct {
	owner string
	since time.Time
}

func (r *Router) restLeast() time.Duration { return cmp.Or(r.config.restLeast, restLeast) }

// restsFrom says that the address must not be the owner's yet. The caller has r.mu.
func (r *Router) restsFrom(index int, owner string, now time.Time) bool {
	last, rests := r.resting[index]
	return rests && now.Sub(last.since) < restFor && (owner == "" || owner == UnknownOwner || last.owner != owner)
}

// freeIndex is the next address that is not used and does not rest. Where every one rests, it is the one that has rested for longest, and the
// time that it has to rest yet. The caller has r.mu.
func (r *Router) freeIndex(now time.Time) (index int, wait time.Duration, ok bool) {
	for range r.indexes() - firstIndex {
		if r.next++; r.next >= r.indexes() {
			r.next = firstIndex
		}
		if r.used[r.next] {
			continue
		}
		if !r.restsFrom(r.next, "", now) {
			return r.next, 0, true
		}
		if !ok || r.resting[r.next].since.Before(r.resting[index].since) {
			index, ok = r.next, true
		}
	}
	if !ok {
		return 0, 0, false
	}
	return index, max(0, r.restLeast()-now.Sub(r.resting[index].since)), true
}

// rest begins the rest of the addresses of a slot in which a machine ran. It is written down, so that the next hostd keeps to it.
func (r *Router) rest(s *slot, now time.Time) error {
	r.mu.RLock()
	owner, indexes := s.owner, []int{s.index, s.former}
	r.mu.RUnlock()
	if owner == "" {
		return nil
	}
	for _, index := range indexes {
		if index == nowhere {
			continue
		}
		if err := os.WriteFile(r.restPath(index), []byte(owner), 0o600); err != nil {
			return fmt.Errorf("note the rest of %s: %w", r.address(index, 2), err)
		}
		r.mu.Lock()
		r.resting[index] = rested{owner, now}
		r.mu.Unlock()
	}
	return r.endRests(now)
}

// endRests forgets those that are over.
func (r *Router) endRests(now time.Time) (err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for index, last := range r.resting {
		if now.Sub(last.since) >= restFor {
			delete(r.resting, index)
			err = errors.Join(err, removeIfThere(r.restPath(index)))
		}
	}
	return err
}

// adoptRests goes by the times of the files. One that is of a later time, since the clock was set back, rests from now on.
func (r *Router) adoptRests() error {
	if err := os.MkdirAll(r.restDir(), 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(r.restDir())
	if err != nil {
		return err
	}
	now := time.Now()
	for _, entry := range entries {
		path := filepath.Join(r.restDir(), entry.Name())
		address, _ := netip.ParseAddr(entry.Name())
		index, ok := r.indexOf(address)
		if !ok { // of another machine network
			err = errors.Join(err, os.Remove(path))
			continue
		}
		owner, readErr := os.ReadFile(path)
		info, statErr := entry.Info()
		if err = errors.Join(err, readErr, statErr); err != nil {
			return err
		}
		r.resting[index] = rested{string(owner), now.Add(-max(0, now.Sub(info.ModTime())))}
	}
	return errors.Join(err, r.endRests(now))
}

func (r *Router) restDir() string { return filepath.Join(r.config.RunDir, "rests") }
func (r *Router) restPath(index int) string {
	return filepath.Join(r.restDir(), r.address(index, 2).String())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

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

// Wish is the address that a guest has in its memory, and the guest's owner.
type Wish struct {
	Address netip.Addr
	Owner   string
}

// UnknownOwner as an address's last owner makes it rest for all machines.
const UnknownOwner = "?"

// A released address rests: no other owner gets it for a while. Parts of the service still act on the old owner, and
// their packets must not reach another tenant. While other addresses are free, an address rests for restFor. Otherwise
// the longest rested is assigned, after restLeast at the earliest. So starts do not fail, and many starts of one tenant
// cannot shorten another's rest below restLeast. These delays must be shorter than restLeast:
//
//   - the cell reconnects to hostd and learns of the machine's death: 2 s;
//   - a link of the cell that has not learned it: 5 tries of 2.2 s;
//   - a pending answer of the resolver: 5 s;
//   - connections that wait for a dead secret proxy: 10 s until the next closes those without secrets.
const (
	restFor   = 60 * time.Second
	restLeast = 15 * time.Second
	restLook  = 250 * time.Millisecond
)

type rested struct {
	owner string
	since time.Time
}

func (r *Router) restLeast() time.Duration { return cmp.Or(r.config.restLeast, restLeast) }

// restsFrom reports whether the address must not be given to this owner yet. The caller must hold r.mu.
func (r *Router) restsFrom(index int, owner string, now time.Time) bool {
	last, rests := r.resting[index]
	return rests && now.Sub(last.since) < restFor && (owner == "" || owner == UnknownOwner || last.owner != owner)
}

// freeIndex returns a free address. If all free ones rest, it returns the longest rested, with its remaining time. The
// caller must hold r.mu.
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

// rest writes a file for each resting address, from which the next hostd continues the rest.
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

// adoptRests reads the files of an earlier hostd. If the clock was set back, a file's time may be in the future, which
// is treated as now.
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
		if !ok { // the address is of another machine network
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

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Stray is a link or namespace that belongs to no slot.
type Stray struct {
	Name   string
	Remove func() error
}

// Strays lists objects before it reads the slots. A slot is listed before its first object exists and until its last is
// gone.
func (r *Router) Strays() ([]Stray, error) {
	inside, err := r.strayLinks()
	if err != nil {
		return nil, err
	}
	outside, err := r.strayHostLinks()
	if err != nil {
		return nil, err
	}
	pins, err := r.strayPins()
	if err != nil {
		return nil, err
	}
	elements, err := r.strayElements()
	return append(append(append(inside, outside...), pins...), elements...), err
}

func (r *Router) strayLinks() ([]Stray, error) {
	links, err := r.listLinks()
	if err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var strays []Stray
	for _, link := range links {
		var index int
		name := link.Attrs().Name
		if _, err := fmt.Sscanf(name, r.name("m")+"%d", &index); err != nil || r.usedLinks[index] {
			continue
		}
		strays = append(strays, Stray{"link " + name, func() error { return deleteLink(r.links, name) }})
	}
	return strays, nil
}

func (r *Router) strayHostLinks() ([]Stray, error) {
	links, err := r.hostLinks.LinkList()
	if err != nil && err != netlink.ErrDumpInterrupted {
		return nil, err
	}
	misplaced := regexp.MustCompile("^" + r.name("") + `(m[0-9]+|r|u)$`)
	var strays []Stray
	for _, link := range links {
		if name := link.Attrs().Name; misplaced.MatchString(name) {
			strays = append(strays, Stray{"host link " + name, func() error { return deleteLink(r.hostLinks, name) }})
		}
	}
	return strays, nil
}

func (r *Router) strayPins() ([]Stray, error) {
	entries, err := os.ReadDir(filepath.Join(r.config.RunDir, "netns"))
	if err != nil {
		return nil, err
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var strays []Stray
	for _, entry := range entries {
		slot, ok := strings.CutPrefix(entry.Name(), "m-")
		if !ok || r.slots[slot] != nil {
			continue
		}
		pin := r.pin(entry.Name())
		strays = append(strays, Stray{"namespace " + entry.Name(), func() error { return removeNamespace(pin) }})
	}
	return strays, nil
}

func (r *Router) strayElements() ([]Stray, error) {
	var strays []Stray
	for _, set := range []*nftables.Set{r.rules.machines, r.rules.connected} {
		elements, err := r.rules.elements(set)
		if err != nil {
			return nil, fmt.Errorf("read the set %s: %w", set.Name, err)
		}
		for _, element := range elements {
			if key := element.Key; len(key) == int(pairType.Bytes) && !r.ownsElement(key) {
				address, _ := netip.AddrFromSlice(key[unix.IFNAMSIZ:])
				strays = append(strays, Stray{fmt.Sprintf("element %s of set %s", address, set.Name), func() error { return r.rules.remove(set, key) }})
			}
		}
	}
	return strays, nil
}

func (r *Router) ownsElement(key []byte) bool {
	address, _ := netip.AddrFromSlice(key[unix.IFNAMSIZ:])
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.byIP[address]
	return s != nil && string(r.key(s)) == string(key)
}

func (t *rules) elements(set *nftables.Set) (found []nftables.SetElement, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.ensureOpen(); err != nil {
		return nil, err
	}
	if found, err = t.conn.GetSetElements(set); err != nil {
		err = errors.Join(err, t.reopen())
	}
	return found, err
}

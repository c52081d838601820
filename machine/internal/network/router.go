// Package network joins machines to the world through one router namespace for each instance.
//
//	host ── b<id>h ⇄ b<id>r ── router ── b<id>m<index> ⇄ eth0 ── machine   (one /30 each)
//	                              └───── b<id>u ⇄ b<id>p ── uplink namespace, where there is one
//
// The first two /30 belong to those two links. The kernel is the only state: slots are aliases of links, so a new hostd
// adopts them. It must be in the mount namespace that holds the pins.
package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/berth-dev/berth/machine/internal/resolver"
)

type Config struct {
	Instance       string       // part of the name of everything made here
	MachineNetwork netip.Prefix // IPv4, /8 to /26; four addresses a machine
	Uplink         string       // UplinkHost, UplinkNone, or the path or name of a network namespace
	Firewall       string       // FirewallAuto (also "") or FirewallManual: handling of other firewalls of the host
	RunDir         string       // pins are <RunDir>/netns/<name>
	Callers        []uint32     // users in addition to root who may connect to machines; empty: every user may
	Resolvers      []string     // address or address:port; default: those of the host's /etc/resolv.conf (UplinkHost only)

	// These fields are set in tests only.
	documentation    bool // 203.0.113.0/24 is public behind the host, too
	conntrackMax     int  // instead of the computer's limit
	handOver         time.Duration
	restLeast        time.Duration
	packetsPerSecond uint64
}

const (
	UplinkHost = "host"
	UplinkNone = "none"

	addressesEach = 4       // a /30
	nowhere       = 0       // index of the host link, never of a machine
	firstIndex    = 2       // index 1 is the uplink
	machinesMax   = 1 << 16 // five digits in a link's name
	inside        = "eth0"
	linkMTU       = 1500
	adoptRetries  = 5 // a kernel's listing is interrupted, and so repeated, when links change
)

var (
	ErrNoAddress = errors.New("the machine network has no free address")
	ErrUnknown   = errors.New("no such slot in the network")

	instancePattern = regexp.MustCompile(`^[0-9a-z]{1,8}$`)
	slotPattern     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
)

type Router struct {
	config Config
	mtu    int

	namespace *os.File
	uplink    *os.File // nil unless the uplink is a namespace
	links     *netlink.Handle
	hostLinks *netlink.Handle
	rules     rules

	firewalls firewalls

	onRelease   func(netip.Addr) // may be nil
	releaseTurn func(slot string) (end func())

	forwardingWasOff bool // on the host, before an instance turned it on

	mu        sync.RWMutex
	slots     map[string]*slot
	byIP      map[netip.Addr]*slot
	used      map[int]bool // addresses, by their index
	usedLinks map[int]bool
	next      int // where the search for a free index continues
	resting   map[int]rested
}

type slot struct {
	name  string
	link  int                      // number in the link's name
	began map[refusalKey]time.Time // first reported begin of each refusal
	busy  sync.Mutex               // serializes changes of the slot
	pace  *rate.Limiter

	// guarded by Router.mu:
	index     int           // of its address; nowhere while it has none
	former    int           // of a second address that is reserved during a move; nowhere at other times
	left      chan struct{} // closed when its address is free; nil before Leave
	owner     string        // owner of the machine that ran here; "" before Leave
	connected bool
	outlet    outlet    // changed only by the holder of busy
	past      []Refusal // refusals that were counted in removed sets
}

// Open makes or adopts the router. One transaction replaces the rules, including those of existing machines, so that
// rules apply to every packet.
func Open(ctx context.Context, c Config) (*Router, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	r := newRouter(c)
	return r, r.run(ctx, r.openHost, r.checkFree, r.openNamespace, r.refuseMove, r.joinHost, r.joinUplink, r.adopt, r.adoptRests, r.adoptPolicies, r.openRules, r.openHostRules)
}

// OpenToRemove returns a Router that supports only Close. It needs no uplink, and accepts another machine network.
func OpenToRemove(ctx context.Context, c Config) (*Router, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	r := newRouter(c)
	return r, r.run(ctx, r.openHost, r.openNamespace, r.adopt, r.adoptPolicies, r.openRules)
}

func newRouter(c Config) *Router {
	return &Router{config: c, mtu: linkMTU, slots: map[string]*slot{}, byIP: map[netip.Addr]*slot{}, used: map[int]bool{}, usedLinks: map[int]bool{}, resting: map[int]rested{},
		releaseTurn: func(string) func() { return func() {} }}
}

func (r *Router) run(ctx context.Context, steps ...func() error) error {
	for _, step := range steps {
		if err := errors.Join(ctx.Err(), step()); err != nil {
			r.release()
			return fmt.Errorf("network of instance %s: %w", r.config.Instance, err)
		}
	}
	return nil
}

func check(c Config) error {
	network := c.MachineNetwork
	switch {
	case !instancePattern.MatchString(c.Instance):
		return fmt.Errorf("instance id %q is not allowed in the name of a link", c.Instance)
	case !network.IsValid() || !network.Addr().Is4() || network.Bits() < 8 || network.Bits() > 26 || network.Masked() != network:
		return fmt.Errorf("machine_network %s must be an IPv4 network of /8 to /26", network)
	case c.Uplink == "":
		return errors.New("uplink must be host, none, or a network namespace")
	}
	for _, text := range c.Resolvers {
		if _, err := resolver.ParseResolver(text); err != nil {
			return err
		}
	}
	return nil
}

func (r *Router) openNamespace() error {
	if err := os.MkdirAll(filepath.Join(r.config.RunDir, "netns"), 0o700); err != nil {
		return err
	}
	var err error
	if r.namespace, err = openOrCreateNamespace(r.pin("router")); err != nil {
		return err
	}
	if r.links, err = handleIn(r.namespace, unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER); err != nil {
		return err
	}
	return inNamespace(r.namespace, func() error {
		return errors.Join(disableIPv6(), setSysctl("net/ipv4/ip_forward", "1"),
			setSysctl("net/ipv4/conf/all/accept_redirects", "0"), setSysctl("net/ipv4/conf/all/send_redirects", "0"),
			setSysctl("net/ipv4/conf/default/send_redirects", "0"))
	})
}

// refuseMove refuses another machine network while machines exist, because their addresses belong to the old network.
func (r *Router) refuseMove() error {
	link, err := r.links.LinkByName(r.name("r"))
	if isNoLink(err) {
		return nil
	}
	if err != nil {
		return err
	}
	addresses, err := r.links.AddrList(link, netlink.FAMILY_V4)
	if err != nil || len(addresses) == 0 {
		return err
	}
	began := func(address netlink.Addr) bool { return address.IP.Equal(r.nameserver().AsSlice()) }
	links, err := r.listLinks()
	if err != nil {
		return err
	}
	ends, err := r.ends()
	if err != nil {
		return err
	}
	foreign := func(end netip.Addr) bool {
		_, ok := r.indexOf(end.Next())
		return !ok
	}
	moved := !slices.ContainsFunc(addresses, began)
	for _, link := range links {
		var index int
		_, err := fmt.Sscanf(link.Attrs().Name, r.name("m")+"%d", &index)
		if err == nil && (moved || index >= r.indexes() || slices.ContainsFunc(ends[link.Attrs().Index], foreign)) {
			return fmt.Errorf("machine_network cannot become %s while machines or slots are here that have an address of another one (their router has %s): "+
				"set it back, or take them down first (npm run clean)", r.config.MachineNetwork, addresses[0].IPNet)
		}
	}
	return nil
}

// adopt lists the slots of an earlier hostd. A slot may lack a link or pin after a crash.
func (r *Router) adopt() error {
	links, err := r.listLinks()
	if err != nil {
		return err
	}
	ends, err := r.ends()
	if err != nil {
		return err
	}
	var bare []*slot
	for _, link := range links {
		s := &slot{name: link.Attrs().Alias, outlet: openOutlet()}
		if _, err := fmt.Sscanf(link.Attrs().Name, r.name("m")+"%d", &s.link); err != nil {
			continue
		}
		s.index, s.former = r.indexesAt(ends[link.Attrs().Index])
		switch {
		case !slotPattern.MatchString(s.name) || !isNamespace(r.machinePin(s.name)) || s.link < firstIndex || s.link >= r.indexes() || r.slots[s.name] != nil:
			if err := r.links.LinkDel(link); err != nil {
				return fmt.Errorf("remove stray link %s: %w", link.Attrs().Name, err)
			}
		case s.index == nowhere:
			bare = append(bare, s)
		default:
			r.know(s)
		}
	}
	if err := r.adoptBare(bare); err != nil {
		return err
	}
	r.next = firstIndex + rand.IntN(r.indexes()-firstIndex)
	return r.removeStrayPins()
}

func (r *Router) listLinks() (links []netlink.Link, err error) {
	for range adoptRetries {
		links, err = r.links.LinkList()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return links, err
}

func (r *Router) removeStrayPins() error {
	entries, err := os.ReadDir(filepath.Join(r.config.RunDir, "netns"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, ok := strings.CutPrefix(entry.Name(), "m-")
		if ok && r.slots[name] == nil {
			if err := removeNamespace(r.pin(entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Router) know(s *slot) {
	r.slots[s.name], r.byIP[r.address(s.index, 2)], r.usedLinks[s.link] = s, s, true
	r.used[s.index], r.used[s.former] = true, true // true for index nowhere, too, which belongs to no slot
}

func (r *Router) forget(s *slot) {
	delete(r.slots, s.name)
	delete(r.usedLinks, s.link)
}

// Close removes the router and the networks of all machines, also of running ones.
func (r *Router) Close() error {
	slots, err := r.List()
	for _, slot := range slots {
		err = errors.Join(err, r.Release(slot))
	}
	err = errors.Join(err, r.closeFirewalls(), r.removeHostRules(), deleteLink(r.hostLinks, r.name("h")), deleteLink(r.links, r.name("u")))
	err = errors.Join(err, removeNamespace(r.pin("router")))
	r.release()
	err = errors.Join(err, os.RemoveAll(r.restDir()))
	for _, dir := range []string{"netns", "egress"} {
		_ = os.Remove(filepath.Join(r.config.RunDir, dir)) // fails unless it is empty
	}
	return err
}

func (r *Router) release() {
	r.rules.close()
	for _, handle := range []*netlink.Handle{r.links, r.hostLinks} {
		if handle != nil {
			handle.Close()
		}
	}
	for _, file := range []*os.File{r.namespace, r.uplink} {
		if file != nil {
			file.Close()
		}
	}
}

func (r *Router) name(suffix string) string     { return "b" + r.config.Instance + suffix }
func (r *Router) table() string                 { return "berth_" + r.config.Instance }
func (r *Router) pin(name string) string        { return filepath.Join(r.config.RunDir, "netns", name) }
func (r *Router) machinePin(slot string) string { return r.pin("m-" + slot) }
func (r *Router) machineLink(link int) string   { return fmt.Sprintf("%s%d", r.name("m"), link) }
func (r *Router) uplinkIsNamespace() bool {
	return r.config.Uplink != UplinkHost && r.config.Uplink != UplinkNone
}
func (r *Router) indexes() int            { return min(1<<(30-r.config.MachineNetwork.Bits()), machinesMax) }
func (r *Router) hostAddress() netip.Addr { return r.address(0, 1) }
func (r *Router) nameserver() netip.Addr  { return r.address(0, 2) }

// address returns an address of a /30: host 1 is the router's or host's end, host 2 the machine.
func (r *Router) address(index, host int) netip.Addr {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], uint32(number(r.config.MachineNetwork.Addr())+index*addressesEach+host))
	return netip.AddrFrom4(address)
}

func number(address netip.Addr) int {
	bytes := address.As4()
	return int(binary.BigEndian.Uint32(bytes[:]))
}

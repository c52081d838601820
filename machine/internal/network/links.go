package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	prefixLen = 30
	upBound   = 5 * time.Second
)

func isNoLink(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing)
}

func deleteLink(handle *netlink.Handle, name string) error {
	if handle == nil {
		return nil
	}
	link, err := handle.LinkByName(name)
	if isNoLink(err) {
		return nil
	}
	if err == nil {
		err = handle.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) { // an error of the other end: its namespace ended during the call
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}

// ensurePair replaces a pair if one end is missing or is in a replaced namespace.
func ensurePair(near *netlink.Handle, name string, far *os.File, farLinks *netlink.Handle, farName string, mtu int) (netlink.Link, error) {
	link, err := near.LinkByName(name)
	if err == nil {
		peer, err := farLinks.LinkByName(farName)
		if err == nil && peer.Attrs().ParentIndex == link.Attrs().Index && link.Attrs().ParentIndex == peer.Attrs().Index {
			return link, nil
		}
	} else if !isNoLink(err) {
		return nil, err
	}
	if err := errors.Join(deleteLink(near, name), deleteLink(farLinks, farName)); err != nil {
		return nil, err
	}
	pair := netlink.NewVeth(netlink.LinkAttrs{Name: name, MTU: mtu, TxQLen: -1})
	pair.PeerName, pair.PeerNamespace, pair.PeerMTU = farName, netlink.NsFd(far.Fd()), uint32(mtu)
	if err := near.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("make link %s: %w", name, err)
	}
	return near.LinkByName(name)
}

func setUp(handle *netlink.Handle, name string, address netip.Addr) (netlink.Link, error) {
	link, err := handle.LinkByName(name)
	if err != nil {
		return nil, err
	}
	if err := handle.AddrReplace(link, &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(address, prefixLen))}); err != nil {
		return nil, fmt.Errorf("set address %s of %s: %w", address, name, err)
	}
	if err := handle.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("set %s up: %w", name, err)
	}
	return link, nil
}

// waitUp waits until the kernel has noticed that both ends are up. Before that packets are dropped, and a retry takes a
// second.
func waitUp(handle *netlink.Handle, name string) error {
	for deadline := time.Now().Add(upBound); ; time.Sleep(200 * time.Microsecond) {
		link, err := handle.LinkByName(name)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("link %s is not up after %s", name, upBound)
		}
	}
}

func setDefaultRoute(handle *netlink.Handle, link netlink.Link, gateway netip.Addr) error {
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice(), Dst: ipNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))}
	if err := handle.RouteReplace(route); err != nil {
		return fmt.Errorf("set the default route over %s: %w", gateway, err)
	}
	return nil
}

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

func (r *Router) openHost() (err error) {
	if r.hostLinks, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	if r.config.Uplink == UplinkHost {
		r.mtu = pathMTU(r.hostLinks)
	}
	return nil
}

// checkFree refuses a machine network to which the host has a route, because the router would receive that traffic of
// the host.
func (r *Router) checkFree() error {
	routes, err := r.hostLinks.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("read the host's routes: %w", err)
	}
	for _, route := range routes {
		if route.Dst == nil {
			continue
		}
		address, _ := netip.AddrFromSlice(route.Dst.IP)
		bits, _ := route.Dst.Mask.Size()
		taken := netip.PrefixFrom(address.Unmap(), bits)
		if bits == 0 || !taken.Overlaps(r.config.MachineNetwork) {
			continue
		}
		link, err := r.hostLinks.LinkByIndex(route.LinkIndex)
		if err == nil && link.Attrs().Name == r.name("h") {
			continue
		}
		name := "no device"
		if err == nil {
			name = link.Attrs().Name
		}
		return fmt.Errorf("machine_network %s is taken: the host routes %s to %s; set another machine_network", r.config.MachineNetwork, taken, name)
	}
	return nil
}

// pathMTU returns the MTU of the host's default route, so that full packets need no fragmentation.
func pathMTU(handle *netlink.Handle) int {
	routes, err := handle.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return linkMTU
	}
	for _, route := range routes {
		if route.Dst != nil {
			if bits, _ := route.Dst.Mask.Size(); bits != 0 {
				continue
			}
		}
		if link, err := handle.LinkByIndex(route.LinkIndex); err == nil && link.Attrs().MTU >= 576 {
			return min(link.Attrs().MTU, linkMTU)
		}
	}
	return linkMTU
}

func (r *Router) joinHost() error {
	if _, err := ensurePair(r.hostLinks, r.name("h"), r.namespace, r.links, r.name("r"), r.mtu); err != nil {
		return err
	}
	if err := setSysctl("net/ipv6/conf/"+r.name("h")+"/disable_ipv6", "1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := r.loopbackUp(); err != nil {
		return err
	}
	if _, err := setUp(r.links, r.name("r"), r.nameserver()); err != nil {
		return err
	}
	link, err := setUp(r.hostLinks, r.name("h"), r.hostAddress())
	if err != nil {
		return err
	}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(r.config.MachineNetwork), Gw: r.nameserver().AsSlice(), Src: r.hostAddress().AsSlice()}
	if err := r.hostLinks.RouteReplace(route); err != nil {
		return fmt.Errorf("route %s to the router: %w", r.config.MachineNetwork, err)
	}
	return waitUp(r.links, r.name("r"))
}

func (r *Router) loopbackUp() error {
	link, err := r.links.LinkByName("lo")
	if err != nil {
		return err
	}
	return r.links.LinkSetUp(link)
}

func (r *Router) joinUplink() error {
	if !r.uplinkIsNamespace() {
		if err := deleteLink(r.links, r.name("u")); err != nil {
			return err
		}
	}
	switch r.config.Uplink {
	case UplinkNone:
		return r.dropDefaultRoute()
	case UplinkHost:
		link, err := r.links.LinkByName(r.name("r"))
		if err != nil {
			return err
		}
		return setDefaultRoute(r.links, link, r.hostAddress())
	default:
		return r.joinNamespace()
	}
}

func (r *Router) dropDefaultRoute() error {
	err := r.links.RouteDel(&netlink.Route{Dst: ipNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0))})
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (r *Router) joinNamespace() (err error) {
	if r.uplink, err = openNamespace(r.config.Uplink); err != nil {
		return err
	}
	far, err := handleIn(r.uplink, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer far.Close()
	if _, err := ensurePair(r.links, r.name("u"), r.uplink, far, r.name("p"), r.mtu); err != nil {
		return err
	}
	if _, err := setUp(far, r.name("p"), r.address(1, 1)); err != nil {
		return err
	}
	link, err := setUp(r.links, r.name("u"), r.address(1, 2))
	if err != nil {
		return err
	}
	return errors.Join(setDefaultRoute(r.links, link, r.address(1, 1)), waitUp(far, r.name("p")))
}

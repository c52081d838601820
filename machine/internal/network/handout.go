package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// This is runsc's value. The kernel's default of 208 KiB drops packets at high rates.
const socketBufferBytes = 4 << 20

// Handout is a socket that receives every frame of the link, with the values that runsc would read in the namespace.
type Handout struct {
	Place
	Socket   *os.File
	MTU      int
	Hardware net.HardwareAddr
	GSOBytes uint32
}

// Place is a machine's position in the network.
type Place struct {
	Name    string // name of the guest's link
	Address netip.Prefix
	Gateway netip.Addr
}

// HandOut removes the address from the namespace, because the namespace's kernel would answer the machine's packets.
// The caller closes the socket.
func (r *Router) HandOut(name string) (out *Handout, err error) {
	err = r.withSlot(name, func(s *slot) error {
		namespace, err := os.Open(r.machinePin(name))
		if err != nil {
			return err
		}
		defer namespace.Close()
		return inNamespace(namespace, func() error {
			out, err = handOut(r.place(s.index))
			return err
		})
	})
	return out, err
}

func handOut(place Place) (*Handout, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	link, err := handle.LinkByName(inside)
	if err != nil {
		return nil, err
	}
	err = handle.AddrDel(link, &netlink.Addr{IPNet: ipNet(place.Address)})
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) { // a second call finds no address
		return nil, fmt.Errorf("take address %s of %s: %w", place.Address, inside, err)
	}
	attributes := link.Attrs()
	socket, err := packetSocket(attributes.Index)
	if err != nil {
		return nil, err
	}
	return &Handout{Place: place, Socket: socket, MTU: attributes.MTU, Hardware: attributes.HardwareAddr, GSOBytes: attributes.GSOMaxSize}, nil
}

func packetSocket(link int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) // protocol 0: otherwise the socket would receive frames before it is bound
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "packet-socket")
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everyProtocol, Ifindex: link}),
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBufferBytes),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBufferBytes),
	)
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	return socket, nil
}

const everyProtocol = 0x0300

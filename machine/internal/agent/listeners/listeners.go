// Package listeners says on which addresses of the guest's network something listens on a port.
package listeners

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/procfs"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	listening = "0A"
	// tableBytesMax is about 50,000 sockets. What is behind is not read.
	tableBytesMax = 8 << 20
	lineBytesMax  = 4 << 10
)

var one sync.Mutex // the kernel writes a whole table for each look

// On lists the addresses on which something listens on this port. Wildcards come first, so that no other address displaces them.
func On(port uint16) (wire.Listeners, error) {
	one.Lock()
	defer one.Unlock()
	var found []netip.Addr
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		err := procfs.Read(table, func(from io.Reader) error {
			addresses, err := parse(io.LimitReader(from, tableBytesMax), port)
			found = append(found, addresses...)
			return err
		})
		if err != nil && table == "net/tcp" { // a kernel without IPv6 has no other
			return wire.Listeners{}, fail.From(err)
		}
	}
	return wire.Listeners{Addresses: short(found)}, nil
}

func short(found []netip.Addr) []string {
	slices.SortFunc(found, func(a, b netip.Addr) int {
		if a.IsUnspecified() != b.IsUnspecified() {
			if a.IsUnspecified() {
				return -1
			}
			return 1
		}
		return a.Compare(b)
	})
	found = slices.Compact(found)
	texts := make([]string, 0, min(len(found), wire.ListenersMax))
	for _, address := range found[:min(len(found), wire.ListenersMax)] {
		texts = append(texts, address.String())
	}
	return texts
}

// parse reads a table of /proc/net. A line that is no socket is passed over.
func parse(from io.Reader, port uint16) ([]netip.Addr, error) {
	var found []netip.Addr
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, lineBytesMax)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != listening {
			continue
		}
		if address, on, ok := parseLocal(fields[1]); ok && on == port {
			found = append(found, address)
		}
	}
	return found, lines.Err()
}

// parseLocal reads an address as /proc has it: words of 32 bits, each in the byte order of the processor.
func parseLocal(text string) (netip.Addr, uint16, bool) {
	words, number, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(number, 16, 16)
	if err != nil {
		return netip.Addr{}, 0, false
	}
	bytes, err := hex.DecodeString(words)
	if err != nil || len(bytes)%4 != 0 {
		return netip.Addr{}, 0, false
	}
	for at := 0; at < len(bytes); at += 4 {
		binary.NativeEndian.PutUint32(bytes[at:], binary.BigEndian.Uint32(bytes[at:]))
	}
	address, ok := netip.AddrFromSlice(bytes)
	return address.Unmap(), uint16(port), ok // a program of IPv6 may listen on an address of IPv4
}

// Package listeners finds the guest's addresses that listen on a port.
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
	// Enough for about 50,000 sockets.
	tableBytesMax = 8 << 20
	lineBytesMax  = 4 << 10
)

var one sync.Mutex // one reader at a time, because the kernel formats the whole table for each read

// On returns the addresses that listen on port. Wildcards come first, so that the limit cannot cut them off.
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
		if err != nil && table == "net/tcp" { // a kernel without IPv6 has no tcp6
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

// An address in /proc is 32-bit words in the processor's byte order.
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
	return address.Unmap(), uint16(port), ok // an IPv6 socket may listen on an IPv4 address
}

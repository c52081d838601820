// Package door checks requests by their content alone, without state and without the cell.
package door

import (
	"strconv"
	"strings"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Place is a port of a workspace.
type Place struct {
	Port   int
	HostID string
}

const (
	hostIDLength = 26
	portMax      = 65_535
	// A host id has 128 bits in 26 letters of 5 bits, so the last two bits are zero.
	hostIDLast = "aeimquy4"
)

type Names struct{ suffix string }

// NewNames expects the domain without a port.
func NewNames(portHost string) Names { return Names{"." + portHost} }

// Place parses a host name. It accepts one spelling: names that browsers treat as different origins must not reach the
// same workspace.
func (n Names) Place(host string) (Place, bool) {
	name, port, hasPort := strings.Cut(host, ":")
	if hasPort && !isDecimal(port, portMax) {
		return Place{}, false
	}
	label, found := strings.CutSuffix(name, n.suffix)
	if !found {
		return Place{}, false
	}
	number, id, _ := strings.Cut(label, "-")
	if !isDecimal(number, portMax) || !isHostID(id) {
		return Place{}, false
	}
	place := Place{HostID: id}
	place.Port, _ = strconv.Atoi(number)
	return place, place.Port != wire.AgentPort // the agent's port is not open to visitors
}

func isDecimal(text string, most int) bool {
	if text == "" || len(text) > 5 || text[0] == '0' {
		return false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	number, _ := strconv.Atoi(text)
	return number <= most
}

func isHostID(text string) bool {
	if len(text) != hostIDLength {
		return false
	}
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return strings.IndexByte(hostIDLast, text[hostIDLength-1]) >= 0
}

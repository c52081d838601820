package secretproxy

import (
	"slices"
	"strings"
)

// covers compares a host's pattern with a name. A star matches exactly one label.
func (h host) covers(name string, port int) bool {
	if !slices.Contains(h.Ports, port) {
		return false
	}
	if parent, ok := strings.CutPrefix(h.Host, "*."); ok {
		_, rest, _ := strings.Cut(name, ".")
		return rest == parent
	}
	return h.Host == name
}

func anyCovers(hosts []host, name string, port int) bool {
	return slices.ContainsFunc(hosts, func(h host) bool { return h.covers(name, port) })
}

type placed struct {
	secret secret
	at     host
}

func (a *answer) placedAt(name string, port int) (list []placed) {
	for _, one := range a.Secrets {
		if i := slices.IndexFunc(one.Hosts, func(h host) bool { return h.covers(name, port) }); i >= 0 {
			list = append(list, placed{secret: one, at: one.Hosts[i]})
		}
	}
	return list
}

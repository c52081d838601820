package egress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func allowlist(hosts ...string) wire.HostEgress {
	p := wire.HostEgress{Revision: "r1", Mode: wire.EgressAllowlist, CIDRs: []string{}}
	for i, host := range hosts {
		p.Rules = append(p.Rules, wire.HostEgressRule{Host: host, Ports: []int{443 + i}})
	}
	return p
}

func TestAWildcardStandsForOneLabel(t *testing.T) {
	m := NewMatcher(allowlist("*.example.com", "api.example.com", "example.org"))
	for name, want := range map[string][]uint16{
		"a.example.com": {443}, "A.Example.COM.": {443}, "_x.example.com": {443}, "xn--bcher-kva.example.com.": {443},
		"api.example.com": {443, 444}, "example.org": {445}, "example.org.": {445},
		"example.com": nil, "a.b.example.com": nil, "evilexample.com": nil, "a.example.com.evil.org": nil, ".example.com": nil, "a..example.com": nil,
		"a.example.com..": nil, "example.org.evil": nil, "www.example.org": nil, "": nil, ".": nil, "com": nil, "*.example.com": nil,
		`evil\.example.com.`: nil, `a\046example.com.`: nil, "a b.example.com": nil, "ä.example.com": nil, "a/b.example.com": nil,
		strings.Repeat("a", 64) + ".example.com": nil, strings.Repeat("a", 63) + ".example.com": {443},
	} {
		if got := m.Ports(name); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", name, got, want)
		}
	}
}

func TestOnlyAnAllowlistAllowsNames(t *testing.T) {
	for _, mode := range []string{wire.EgressAllowAll, wire.EgressDenyAll} {
		m := NewMatcher(wire.HostEgress{Revision: "r", Mode: mode, Rules: allowlist("example.org").Rules, CIDRs: []string{"8.8.8.0/24"}})
		if len(m.Ports("example.org")) > 0 || len(m.Networks()) > 0 || m.IsOpen() != (mode == wire.EgressAllowAll) {
			t.Errorf("%s: %+v", mode, m)
		}
	}
	if m := NewMatcher(allowlist()); len(m.Ports("example.org")) > 0 || len(m.Networks()) > 0 || m.IsOpen() {
		t.Errorf("an empty allowlist: %+v", m)
	}
}

func FuzzMatcher(f *testing.F) {
	for _, seed := range [][2]string{{"*.example.com", "a.b.example.com"}, {"*.example.com", `evil\.example.com.`}, {"example.com", "EXAMPLE.com."},
		{"*.a.b", ".a.b"}, {"a.b", "a.b.."}, {"*.a.b", "x.a.b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, host, name string) {
		p := allowlist(host)
		if Check(p) != nil {
			return
		}
		asked := strings.Split(strings.TrimSuffix(strings.ToLower(name), "."), ".")
		rule := strings.Split(host, ".")
		want := len(asked) == len(rule)
		for i := range rule {
			if !want {
				break
			}
			if rule[i] == "*" {
				want = asked[i] != "" && len(asked[i]) <= 63 && strings.Trim(asked[i], "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
			} else {
				want = asked[i] == rule[i]
			}
		}
		if len(strings.Join(asked, ".")) > 253 {
			want = false
		}
		if got := len(NewMatcher(p).Ports(name)) > 0; got != want {
			t.Errorf("%q allows %q: %v", host, name, got)
		}
	})
}

func TestAPolicyIsCheckedHereToo(t *testing.T) {
	good := func(change func(*wire.HostEgress)) wire.HostEgress {
		p := wire.HostEgress{Revision: "a.B-9_", Mode: wire.EgressAllowlist, Rules: []wire.HostEgressRule{{Host: "*.example.com", Ports: []int{443, 80}}},
			CIDRs: []string{"8.8.8.0/24", "1.1.1.1/32", "2600::/12"}}
		change(&p)
		return p
	}
	if err := Check(good(func(*wire.HostEgress) {})); err != nil {
		t.Error(err)
	}
	if err := Check(Default()); err != nil {
		t.Error(err)
	}
	var bad []wire.HostEgress
	add := func(change func(*wire.HostEgress)) { bad = append(bad, good(change)) }
	for _, host := range []string{"", "*", "*.", "*.com", "com", "localhost", "localhost.", "foo.localhost", "*.localhost", "a..b", "*.*.com", "a.*.com", "-a.com", "a-.com",
		"A.com", "a.com.", "1.2.3.4", "169.254.169.254", "2852039166", "0xa9fea9fe", "a.0x1", "0251.0376.0251.0376", "[::1]", "::1", "a b.com", "a\x00.com", "ä.com",
		"a\u202e.com", "_x.com", strings.Repeat("a", 64) + ".com", strings.Repeat("a.", 130) + "com"} {
		add(func(p *wire.HostEgress) { p.Rules[0].Host = host })
	}
	for _, ports := range [][]int{nil, {}, {0}, {65536}, {-1}, {443, 443}, make([]int, PortsMax+1)} {
		add(func(p *wire.HostEgress) { p.Rules[0].Ports = ports })
	}
	for _, cidr := range []string{"", "8.8.8.8", "8.8.8.8/8", "8.8.8.8/33", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "169.254.169.254/32", "192.0.0.0/24",
		"198.18.0.0/15", "224.0.0.0/4", "255.255.255.255/32", "0.0.0.0/0", "8.0.0.0/5", "::/0", "::1/128", "fc00::/7", "fe80::/10", "::ffff:0:0/96", "::ffff:8.8.8.0/120", "64:ff9b::/96",
		"2002::/16", "2000::/3", "2002:a00::/24", "168.63.129.0/24", "240.0.0.0/4", "08.8.8.0/24", " 8.8.8.0/24", "8.8.8.0/024"} {
		add(func(p *wire.HostEgress) { p.CIDRs = []string{cidr} })
	}
	for _, revision := range []string{"", "a b", "a/b", strings.Repeat("a", 65), "a\n"} {
		add(func(p *wire.HostEgress) { p.Revision = revision })
	}
	for _, mode := range []string{"", "ALLOW_ALL", "allow_all", "deny_all"} { // the last two come with rules
		add(func(p *wire.HostEgress) { p.Mode = mode })
	}
	add(func(p *wire.HostEgress) {
		p.Rules = nil
		for i := range RulesMax + 1 {
			p.Rules = append(p.Rules, wire.HostEgressRule{Host: fmt.Sprintf("h%d.example.com", i), Ports: []int{443}})
		}
	})
	add(func(p *wire.HostEgress) {
		p.CIDRs = nil
		for i := range CIDRsMax + 1 {
			p.CIDRs = append(p.CIDRs, fmt.Sprintf("8.8.%d.0/24", i))
		}
	})
	for _, p := range bad {
		if Check(p) == nil {
			t.Errorf("it was taken: %+v", p)
		}
	}
}

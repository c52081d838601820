package network

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// This file's name makes its tests run last. A namespace keeps a legacy iptables table for good, and code that turns
// forwarding off would mistake the table for another program's.

// Forwarding rules of other programs. Berth's own rules stand between these in FORWARD.
const (
	dockerRules = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:DOCKER - [0:0]
:DOCKER-FORWARD - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-FORWARD
-A DOCKER-FORWARD -o docker0 -j DOCKER
-A DOCKER-FORWARD -i docker0 -j ACCEPT
-A DOCKER ! -i docker0 -o docker0 -j DROP
COMMIT
`
	ufwRules = `*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:ufw-before-forward - [0:0]
:ufw-user-forward - [0:0]
:ufw-reject-forward - [0:0]
-A FORWARD -j ufw-before-forward
-A FORWARD -j ufw-reject-forward
-A ufw-before-forward -p icmp -j ACCEPT
-A ufw-before-forward -j ufw-user-forward
-A ufw-reject-forward -j REJECT --reject-with icmp-port-unreachable
-A INPUT -i wan -j ACCEPT
COMMIT
`
	handWritten = `table inet filter {
	chain forward { type filter hook forward priority filter; policy drop; ct state invalid drop; }
	chain other { type filter hook forward priority filter + 5; policy accept; counter jump refused; }
	chain refused { counter reject with icmpx admin-prohibited; }
}
`
	harmless = `table ip published {
	chain forward { type filter hook forward priority filter; policy accept; oifname "br0" drop; }
}
`
)

type firewalledHost struct {
	r *Router
	a machine
}

func newFirewalledHost(t *testing.T, mode string, flush []string, write func()) firewalledHost {
	t.Helper()
	host, world := hostNamespace(t), testNamespace(t, public)
	joinWorld(t, host, world)
	serve(t, world, 80)
	t.Cleanup(func() { run(t, "", flush...) })
	write()
	config := testConfig(t, UplinkHost)
	config.Firewall = mode
	r := openTest(t, config)
	a := attach(t, r, "a")
	must(t, r.Connect("a"))
	return firewalledHost{r, a}
}

func (b firewalledHost) passes(t *testing.T, want bool) {
	t.Helper()
	if !want {
		refuse(t, "a firewall that drops", b.a.ns, public, 80)
	} else if who := call(t, b.a.ns, public, 80); who != "203.0.113.1" {
		t.Errorf("the world saw %q", who)
	}
}

func (b firewalledHost) states(t *testing.T) (states []string) {
	t.Helper()
	must(t, b.r.lookAtFirewalls())
	for _, each := range b.r.Firewalls() {
		states = append(states, strings.TrimSpace(each.Name+" "+each.State+" "+each.Why))
	}
	return states
}

func (b firewalledHost) wants(t *testing.T, states ...string) {
	t.Helper()
	if found := b.states(t); !slices.Equal(found, states) {
		t.Errorf("firewalls: %q, not %q", found, states)
	}
}

func run(t *testing.T, input string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

func TestMachinesPassTheIptablesOfDockerAndUfwWhateverRewritesThem(t *testing.T) {
	for _, variant := range []string{"nft", "legacy"} {
		program := "iptables-" + variant
		flush := []string{"sh", "-c", program + " -P FORWARD ACCEPT; " + program + " -F; " + program + " -X; " + program + " -P INPUT ACCEPT; nft delete table ip filter || true"}
		open := program + ": chain FORWARD open"
		for name, rules := range map[string]string{"docker": dockerRules, "ufw": ufwRules} {
			t.Run(variant+" "+name, func(t *testing.T) {
				restore := func() { run(t, rules, program+"-restore") }
				b := newFirewalledHost(t, FirewallAuto, flush, restore)
				b.passes(t, false)
				b.wants(t, open)
				b.passes(t, true)
				refuse(t, "guest to the host", b.a.ns, "203.0.113.1", 7001)
				before := run(t, "", program, "-S")
				b.wants(t, open)
				if after := run(t, "", program, "-S"); after != before {
					t.Errorf("a second look wrote something:\n%s\nafter\n%s", after, before)
				}
				for _, change := range []func(){
					restore,
					func() { run(t, "", program, "-F", "FORWARD") },
					func() { run(t, "", program, "-D", b.r.xtablesChain(), "1") },
				} {
					change()
					b.passes(t, false)
					b.wants(t, open)
					b.passes(t, true)
				}
				must(t, b.r.closeFirewalls())
				if left := run(t, "", program, "-S"); strings.Contains(left, "BERTH") || !strings.Contains(left, "-P FORWARD DROP") {
					t.Errorf("after close:\n%s", left)
				}
				b.passes(t, false)
			})
		}
	}
}

func TestMachinesPassAHandWrittenFirewallWhateverRewritesIt(t *testing.T) {
	flush := []string{"nft", "delete table inet filter; delete table ip published"}
	load := func() { run(t, handWritten+harmless, "nft", "-f", "-") }
	b := newFirewalledHost(t, FirewallAuto, flush, load)
	names := []string{"nftables: inet filter, chain forward open", "nftables: inet filter, chain other open"}
	b.passes(t, false)
	b.wants(t, names...)
	b.passes(t, true)
	before := run(t, "", "nft", "list", "ruleset")
	if strings.Count(before, `comment "`+b.r.table()+`"`) != 4 {
		t.Errorf("not marked:\n%s", before)
	}
	b.wants(t, names...)
	if after := run(t, "", "nft", "-s", "list", "table", "inet", "filter"); strings.Count(after, b.r.table()) != 4 {
		t.Errorf("a second look wrote something:\n%s", after)
	}
	run(t, "", flush...)
	load()
	b.passes(t, false)
	b.wants(t, names...)
	b.passes(t, true)
	must(t, b.r.closeFirewalls())
	if left := run(t, "", "nft", "list", "table", "inet", "filter"); strings.Contains(left, b.r.table()) {
		t.Errorf("after close:\n%s", left)
	}
	b.passes(t, false)
}

func TestATableUnderTheNamesOfIptablesThatIptablesCannotReadIsOpenedNatively(t *testing.T) {
	flush := []string{"nft", "delete table ip filter"}
	b := newFirewalledHost(t, FirewallAuto, flush, func() {
		run(t, `table ip filter {
			set known { type ipv4_addr; elements = { 192.0.2.1 }; }
			chain FORWARD { type filter hook forward priority filter; policy drop; ip saddr @known accept; }
		}`, "nft", "-f", "-")
	})
	b.passes(t, false)
	b.wants(t, "iptables-nft: chain FORWARD open")
	b.passes(t, true)
	b.wants(t, "iptables-nft: chain FORWARD open")
	must(t, b.r.closeFirewalls())
	b.passes(t, false)
}

func TestRulesInAFirewallAreKeptWhileTheHostsRulesAre(t *testing.T) {
	flush := []string{"nft", "delete table inet filter; delete table ip published"}
	load := func() { run(t, handWritten+harmless, "nft", "-f", "-") }
	b := newFirewalledHost(t, FirewallAuto, flush, load)
	ctx, stop := context.WithCancel(context.Background())
	kept := make(chan struct{})
	go func() { defer close(kept); b.r.KeepHostRules(ctx) }()
	defer func() { stop(); <-kept }()
	open := func() bool {
		return strings.Count(run(t, "", "nft", "list", "ruleset"), `comment "`+b.r.table()+`"`) == 4
	}
	within(t, "the start", open)
	b.passes(t, true)
	run(t, "", flush...)
	load()
	within(t, "the firewall is loaded anew", open)
	b.passes(t, true)
}

func TestByHandNothingOfOthersIsTouchedAndTheRecipeLetsMachinesThrough(t *testing.T) {
	flush := []string{"sh", "-c", "nft delete table inet filter; iptables-nft -P FORWARD ACCEPT; iptables-nft -F; iptables-nft -X; nft delete table ip filter"}
	b := newFirewalledHost(t, FirewallManual, flush, func() {
		run(t, ufwRules, "iptables-nft-restore")
		run(t, handWritten, "nft", "-f", "-")
	})
	before := run(t, "", "nft", "-s", "list", "ruleset")
	b.wants(t, "iptables-nft: chain FORWARD manual", "nftables: inet filter, chain forward manual", "nftables: inet filter, chain other manual")
	if after := run(t, "", "nft", "-s", "list", "ruleset"); after != before {
		t.Errorf("it was touched:\n%s\nbefore\n%s", after, before)
	}
	b.passes(t, false)
	for _, each := range b.r.Firewalls() {
		for _, command := range each.Recipe {
			run(t, "", "sh", "-c", command)
		}
	}
	b.passes(t, true)
	must(t, b.r.closeFirewalls())
	b.passes(t, true)
}

func TestWhatCannotBeOpenedIsSaidAndMachinesAreServed(t *testing.T) {
	flush := []string{"sh", "-c", "iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F; iptables-legacy -X; iptables-legacy -P INPUT ACCEPT"}
	b := newFirewalledHost(t, FirewallAuto, flush, func() { run(t, ufwRules, "iptables-legacy-restore") })
	t.Setenv("PATH", t.TempDir())
	b.wants(t, "iptables-legacy: chain FORWARD closed "+errNoLegacyProgram.Error())
}

func TestAHostWithoutOtherFirewallsIsLeftAlone(t *testing.T) {
	r := openTest(t, testConfig(t, UplinkHost))
	before := hostTables(t)
	must(t, r.lookAtFirewalls())
	if found := r.Firewalls(); len(found) != 0 {
		t.Errorf("firewalls: %v", found)
	}
	if after := hostTables(t); !slices.Equal(after, before) {
		t.Errorf("tables: %v, before %v", after, before)
	}
}

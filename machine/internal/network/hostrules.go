package network

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
)

func (r *Router) openHostRules() error {
	if r.config.Uplink != UplinkHost {
		return r.removeHostRules()
	}
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	if r.forwardingWasOff, err = r.findForwardingOff(conn); err != nil {
		return err
	}
	if err := r.loadHostRules(conn); err != nil {
		return err
	}
	if err := setSysctl(forwarding, "1"); err != nil {
		return errors.Join(err, r.removeHostRules())
	}
	slog.Info("machines leave through this host: forwarding is on, and an nftables table holds masquerade and forward rules; both go with the network",
		"table", "inet "+r.table(), "link", r.name("h"), "machine_network", r.config.MachineNetwork.String())
	return nil
}

func (r *Router) loadHostRules(conn *nftables.Conn) error {
	neighbours, err := r.neighbours()
	if err != nil {
		return err
	}
	table := &nftables.Table{Name: r.table(), Family: nftables.TableFamilyINet}
	replaceTable(conn, table)
	if err := r.writeHostRules(conn, table, neighbours); err != nil {
		return err
	}
	if r.forwardingWasOff {
		noteForwarding(conn, table)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("load the host's rules: %w", err)
	}
	return nil
}

type hostChain struct {
	chain *nftables.Chain
	rules []words
}

// hostChains protect the host's own and neighbouring addresses, also public ones, from machines. They protect machines
// from outsiders and the host's users. They drop packets that the host redirects, such as to a container's port.
func (r *Router) hostChains(table *nftables.Table, special *nftables.Set) []hostChain {
	link, network := r.name("h"), r.config.MachineNetwork
	leaving := baseChain(table, "leaving", nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, nftables.ChainPolicyAccept)
	leaving.Type = nftables.ChainTypeNAT
	return []hostChain{
		{baseChain(table, "from_host", nftables.ChainHookOutput, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept), r.callers()},
		{baseChain(table, "to_host", nftables.ChainHookInput, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept), []words{
			rule(from(link), state(established), accept()),
			rule(from(link), drop()),
		}},
		{baseChain(table, "passing", nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept), []words{
			rule(from(link), isIPv4(), state(established), accept()),
			rule(from(link), translated(), drop()),
			rule(from(link), isIPv4(), daddrInSet(special), drop()),
			rule(from(link), isIPv4(), saddrIn(network), accept()),
			rule(from(link), drop()),
			rule(to(link), state(established), accept()),
			rule(to(link), drop()),
		}},
		{leaving, []words{rule(isIPv4(), saddrIn(network), notTo(link), masquerade())}},
	}
}

// callers restricts which local users may connect to machines. Packets without a user are of established connections,
// so these are accepted first.
func (r *Router) callers() (list []words) {
	if len(r.config.Callers) == 0 {
		return nil
	}
	toMachines := to(r.name("h"))
	list = append(list, rule(toMachines, state(established), accept()), rule(toMachines, userIs(0), accept()))
	for _, uid := range r.config.Callers {
		list = append(list, rule(toMachines, userIs(uid), accept()))
	}
	return append(list, rule(toMachines, drop()))
}

func (r *Router) writeHostRules(conn *nftables.Conn, table *nftables.Table, neighbours []netip.Prefix) error {
	special := &nftables.Set{Table: table, Name: "special", KeyType: nftables.TypeIPAddr, Interval: true}
	if err := conn.AddSet(special, intervals(specialRanges(r.config, neighbours...))); err != nil {
		return err
	}
	for _, list := range r.hostChains(table, special) {
		conn.AddChain(list.chain)
		for _, exprs := range list.rules {
			conn.AddRule(&nftables.Rule{Table: table, Chain: list.chain, Exprs: exprs})
		}
	}
	return nil
}

// neighbours returns the host's networks. Machines may not reach them, because servers in a public network of the host
// may trust the host.
func (r *Router) neighbours() ([]netip.Prefix, error) {
	addresses, err := r.hostLinks.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("read the host's addresses: %w", err)
	}
	var networks []netip.Prefix
	for _, address := range addresses {
		ip, ok := netip.AddrFromSlice(address.IP.To4())
		if bits, _ := address.Mask.Size(); ok && bits > 0 {
			networks = append(networks, netip.PrefixFrom(ip, bits).Masked())
		}
	}
	return networks, nil
}

// removeHostRules removes the instance's table. Another instance may need forwarding, so forwarding remains on and that
// instance's table gets the note.
func (r *Router) removeHostRules() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("read the host's tables: %w", err)
	}
	noted, err := r.hasNote(conn)
	if err != nil {
		return err
	}
	var other *nftables.Table
	for _, table := range tables {
		switch {
		case table.Name == r.table():
			conn.DelTable(table)
		case strings.HasPrefix(table.Name, "berth_"):
			other = table
		}
	}
	if noted && other != nil {
		noteForwarding(conn, other)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("remove the host's rules: %w", err)
	}
	if !noted || other != nil {
		return nil
	}
	user, err := whoForwards(conn)
	if err != nil {
		return err
	}
	if user != "" {
		slog.Warn("forwarding stays on: somebody else on this host may need it since", "who", user)
		return nil
	}
	return setSysctl(forwarding, "0")
}

// whoForwards returns another program that may rely on forwarding, or "". If there is one, forwarding remains on.
func whoForwards(conn *nftables.Conn) (string, error) {
	if names, err := os.ReadFile("/proc/net/ip_tables_names"); err == nil && len(bytes.TrimSpace(names)) > 0 {
		return "legacy iptables, tables " + strings.Join(strings.Fields(string(names)), ", "), nil
	}
	chains, err := conn.ListChains()
	if err != nil {
		return "", fmt.Errorf("read the host's chains: %w", err)
	}
	for _, chain := range chains {
		if chain.Hooknum == nil || strings.HasPrefix(chain.Table.Name, "berth_") {
			continue
		}
		if *chain.Hooknum == *nftables.ChainHookForward || *chain.Hooknum == *nftables.ChainHookPostrouting {
			return "nftables, table " + chain.Table.Name + ", chain " + chain.Name, nil
		}
	}
	return "", nil
}

const forwarding = "net/ipv4/ip_forward"

// An empty chain of this name notes that Berth turned forwarding on. Neither the chain nor forwarding survives a
// reboot.
const noteName = "forwarding_was_off"

func noteForwarding(conn *nftables.Conn, table *nftables.Table) {
	conn.AddChain(&nftables.Chain{Name: noteName, Table: table})
}

func (r *Router) findForwardingOff(conn *nftables.Conn) (bool, error) {
	text, err := os.ReadFile("/proc/sys/" + forwarding)
	if err != nil {
		return false, err
	}
	if strings.TrimSpace(string(text)) != "1" {
		return true, nil
	}
	return r.hasNote(conn)
}

func (r *Router) hasNote(conn *nftables.Conn) (bool, error) {
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("read the host's chains: %w", err)
	}
	return slices.ContainsFunc(chains, func(chain *nftables.Chain) bool { return chain.Table.Name == r.table() && chain.Name == noteName }), nil
}

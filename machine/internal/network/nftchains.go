package network

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
)

type nftChain struct {
	r     *Router
	conn  *nftables.Conn
	chain *nftables.Chain
}

func (r *Router) findNftChains(conn *nftables.Conn) ([]doorway, error) {
	chains, err := conn.ListChains()
	if err != nil {
		return nil, fmt.Errorf("read the host's chains: %w", err)
	}
	var found []doorway
	if slices.ContainsFunc(chains, func(chain *nftables.Chain) bool { return isFirewalld(chain.Table) }) {
		found = append(found, firewalld{r.name("h")})
	}
	for _, chain := range chains {
		if !forwardsIPv4(chain) || isFirewalld(chain.Table) || strings.HasPrefix(chain.Table.Name, "berth_") {
			continue
		}
		one := nftChain{r, conn, chain}
		matters, err := one.matters()
		if err != nil {
			return nil, err
		}
		if program, err := exec.LookPath(programNft); matters && isIptables(chain) && err == nil {
			found = append(found, nftTables{one, xtables{r, program}})
		} else if matters {
			found = append(found, one)
		}
	}
	return found, nil
}

func forwardsIPv4(chain *nftables.Chain) bool {
	family := chain.Table.Family
	return chain.Hooknum != nil && *chain.Hooknum == *nftables.ChainHookForward &&
		(family == nftables.TableFamilyIPv4 || family == nftables.TableFamilyINet)
}

func isFirewalld(table *nftables.Table) bool { return table.Name == "firewalld" }

func isIptables(chain *nftables.Chain) bool {
	return chain.Table.Family == nftables.TableFamilyIPv4 && chain.Table.Name == filterTable && chain.Name == forwardChain
}

func (c nftChain) name() string {
	return fmt.Sprintf("nftables: %s, chain %s", tableName(c.chain.Table), c.chain.Name)
}

func tableName(table *nftables.Table) string {
	if table.Family == nftables.TableFamilyIPv4 {
		return "ip " + table.Name
	}
	return "inet " + table.Name
}

func (c nftChain) recipe() []string {
	insert, link := fmt.Sprintf("nft insert rule %s %s ", tableName(c.chain.Table), c.chain.Name), c.r.name("h")
	return []string{insert + fmt.Sprintf("iifname %q accept", link), insert + fmt.Sprintf("oifname %q ct state established,related accept", link)}
}

// matters reports whether the chain may drop machines' packets. In a chain of iptables any foreign rule counts, since
// not all can be read here.
func (c nftChain) matters() (bool, error) {
	if c.chain.Policy != nil && *c.chain.Policy == nftables.ChainPolicyDrop {
		return true, nil
	}
	if !isIptables(c.chain) {
		return c.endsInDrop(c.chain.Name)
	}
	rules, err := c.rules(c.chain.Name)
	return slices.ContainsFunc(rules, func(rule *nftables.Rule) bool { return !c.r.isOurs(rule) }), err
}

func (c nftChain) rules(chain string) ([]*nftables.Rule, error) {
	rules, err := c.conn.GetRules(c.chain.Table, &nftables.Chain{Name: chain, Table: c.chain.Table})
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the chain was removed
	}
	if err != nil {
		return nil, fmt.Errorf("read the host's firewall, %s, chain %s: %w", tableName(c.chain.Table), chain, err)
	}
	return rules, nil
}

// endsInDrop checks whether the last rule drops every packet; a rule with a condition does not. The recursion ends,
// because the kernel refuses jumps in a circle.
func (c nftChain) endsInDrop(chain string) (bool, error) {
	rules, err := c.rules(chain)
	if err != nil || len(rules) == 0 {
		return false, err
	}
	for _, each := range rules[len(rules)-1].Exprs {
		switch e := each.(type) {
		case *expr.Counter, *expr.Log:
		case *expr.Reject:
			return true, nil
		case *expr.Verdict:
			if e.Kind == expr.VerdictJump || e.Kind == expr.VerdictGoto {
				return c.endsInDrop(e.Chain)
			}
			return e.Kind == expr.VerdictDrop, nil
		default:
			return false, nil
		}
	}
	return false, nil
}

// letThrough accepts all of a machine's packets here, because the instance's own table decides which may leave.
func (r *Router) letThrough() []words {
	link := r.name("h")
	return []words{rule(from(link), isIPv4(), accept()), rule(to(link), isIPv4(), state(established), accept())}
}

func (c nftChain) ours() (ours []*nftables.Rule, err error) {
	rules, err := c.rules(c.chain.Name)
	for _, rule := range rules {
		if c.r.isOurs(rule) {
			ours = append(ours, rule)
		}
	}
	return ours, err
}

func (c nftChain) isOpen() (bool, error) {
	ours, err := c.ours()
	return len(ours) == len(c.r.letThrough()), err
}

func (c nftChain) open() error {
	ours, err := c.ours()
	if err != nil {
		return err
	}
	for _, rule := range ours {
		if err := c.conn.DelRule(rule); err != nil {
			return err
		}
	}
	for _, exprs := range slices.Backward(c.r.letThrough()) {
		c.conn.InsertRule(&nftables.Rule{Table: c.chain.Table, Chain: c.chain, Exprs: exprs,
			UserData: userdata.AppendString(nil, userdata.TypeComment, c.r.table())})
	}
	if err := c.conn.Flush(); err != nil {
		return fmt.Errorf("insert rules into %s, chain %s: %w", tableName(c.chain.Table), c.chain.Name, err)
	}
	return nil
}

func (r *Router) isOurs(rule *nftables.Rule) bool {
	if comment, ok := userdata.GetString(rule.UserData, userdata.TypeComment); ok && comment == r.table() {
		return true
	}
	return slices.ContainsFunc(rule.Exprs, func(each expr.Any) bool {
		verdict, ok := each.(*expr.Verdict)
		return ok && verdict.Chain == r.xtablesChain()
	})
}

// closeNft removes our rules directly, because the iptables program may have been removed.
func (r *Router) closeNft(conn *nftables.Conn) error {
	chains, err := conn.ListChains()
	if err != nil {
		return fmt.Errorf("read the host's chains: %w", err)
	}
	var own []*nftables.Chain
	for _, chain := range chains {
		foreign := chain.Table.Family == nftables.TableFamilyIPv4 || chain.Table.Family == nftables.TableFamilyINet
		if !foreign || strings.HasPrefix(chain.Table.Name, "berth_") {
			continue
		}
		if chain.Name == r.xtablesChain() {
			own = append(own, chain)
			continue
		}
		ours, err := nftChain{r, conn, chain}.ours()
		if err != nil {
			return err
		}
		for _, rule := range ours {
			if err := conn.DelRule(rule); err != nil {
				return err
			}
		}
	}
	for _, chain := range own {
		conn.FlushChain(chain)
		conn.DelChain(chain)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("remove rules from the host's firewall: %w", err)
	}
	return nil
}

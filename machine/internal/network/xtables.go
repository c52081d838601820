package network

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coreos/go-iptables/iptables"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

const (
	programNft = "iptables-nft"

	filterTable  = "filter"
	forwardChain = "FORWARD"
	dockerChain  = "DOCKER-USER" // Docker places it first in FORWARD and does not change its rules

	xtablesLockSeconds = 5 // another program may hold the lock of legacy iptables
)

func (r *Router) xtablesChain() string { return "BERTH-" + r.config.Instance }

// xtables writes rules with the variant's own program, which cannot list rules of other programs.
type xtables struct {
	r       *Router
	program string
}

func (x xtables) name() string { return filepath.Base(x.program) + ": chain " + forwardChain }

func (x xtables) passing() [][]string {
	link := x.r.name("h")
	return [][]string{{"-i", link, "-j", "ACCEPT"}, {"-o", link, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"}}
}

func (x xtables) recipe() (commands []string) {
	for _, rule := range x.passing() {
		commands = append(commands, fmt.Sprintf("%s -I %s 1 %s", filepath.Base(x.program), forwardChain, strings.Join(rule, " ")))
	}
	return commands
}

func (x xtables) tool() (*iptables.IPTables, error) {
	return iptables.New(iptables.Path(x.program), iptables.Timeout(xtablesLockSeconds))
}

// open adds a jump to FORWARD, too, not only to Docker's chain: a stopped Docker leaves its chain, and a flush of
// FORWARD removes every jump to that chain.
func (x xtables) open() error {
	tool, err := x.tool()
	if err != nil {
		return err
	}
	if err := x.fillChain(tool); err != nil {
		return err
	}
	docker, err := tool.ChainExists(filterTable, dockerChain)
	if err != nil {
		return err
	}
	if docker {
		err = tool.InsertUnique(filterTable, dockerChain, 1, "-j", x.r.xtablesChain())
	}
	return errors.Join(err, tool.InsertUnique(filterTable, forwardChain, 1, "-j", x.r.xtablesChain()))
}

func (x xtables) fillChain(tool *iptables.IPTables) error {
	chain := x.r.xtablesChain()
	if full, err := x.chainIsFull(tool); err != nil || full {
		return err
	}
	if err := tool.ClearChain(filterTable, chain); err != nil {
		return err
	}
	for _, rule := range x.passing() {
		if err := tool.Append(filterTable, chain, rule...); err != nil {
			return err
		}
	}
	return nil
}

func (x xtables) chainIsFull(tool *iptables.IPTables) (bool, error) {
	chain := x.r.xtablesChain()
	if there, err := tool.ChainExists(filterTable, chain); err != nil || !there {
		return false, err
	}
	lines, err := tool.List(filterTable, chain)
	if err != nil || len(lines) != 1+len(x.passing()) {
		return false, err
	}
	for _, rule := range x.passing() {
		if there, err := tool.Exists(filterTable, chain, rule...); err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// nftTables is iptables' table in nftables. Its checks read nftables directly, which needs no process.
type nftTables struct {
	nftChain
	xtables xtables
}

func (t nftTables) name() string     { return t.xtables.name() }
func (t nftTables) recipe() []string { return t.xtables.recipe() }

func (t nftTables) isOpen() (bool, error) {
	if native, err := t.nftChain.isOpen(); err != nil || native {
		return native, err
	}
	own, err := t.rules(t.r.xtablesChain())
	if err != nil || len(own) != len(t.xtables.passing()) || !slices.ContainsFunc(own, accepts) {
		return false, err
	}
	chains, err := t.conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return false, fmt.Errorf("read the host's chains: %w", err)
	}
	for _, chain := range chains {
		if chain.Table.Name != filterTable || chain.Name != forwardChain && chain.Name != dockerChain {
			continue
		}
		rules, err := t.rules(chain.Name)
		if err != nil || !slices.ContainsFunc(rules, t.r.isOurs) {
			return false, err
		}
	}
	return true, nil
}

func accepts(rule *nftables.Rule) bool {
	return slices.ContainsFunc(rule.Exprs, func(each expr.Any) bool {
		verdict, ok := each.(*expr.Verdict)
		return ok && verdict.Kind == expr.VerdictAccept
	})
}

// If iptables cannot list the table, another program may have made it natively under iptables' names. Then rules are
// added by nftables.
func (t nftTables) open() error {
	tool, err := t.xtables.tool()
	if err != nil {
		return err
	}
	if _, err := tool.List(filterTable, forwardChain); err != nil {
		return t.nftChain.open()
	}
	return t.xtables.open()
}

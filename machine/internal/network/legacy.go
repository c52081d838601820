package network

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const programLegacy = "iptables-legacy"

var errNoLegacyProgram = errors.New("there are rules of legacy iptables, and no program iptables-legacy to change them with")

// legacyTable is a table of legacy iptables, which nftables cannot read.
type legacyTable struct{ xtables }

// findLegacy first checks that the table exists, because listing a missing table would create it.
func (r *Router) findLegacy() ([]doorway, error) {
	if !hasLegacyFilter() {
		return nil, nil
	}
	program, err := findLegacyProgram()
	if err != nil {
		return []doorway{unreadable{xtables{r, programLegacy}}}, nil
	}
	table := legacyTable{xtables{r, program}}
	tool, err := table.tool()
	if err != nil {
		return nil, err
	}
	lines, err := tool.List(filterTable, forwardChain)
	if err != nil {
		return nil, fmt.Errorf("read the rules of legacy iptables: %w", err)
	}
	harmless := []string{"-P " + forwardChain + " ACCEPT", table.jumpIn(forwardChain)}
	if !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(harmless, line) }) {
		return nil, nil
	}
	return []doorway{table}, nil
}

func hasLegacyFilter() bool {
	names, err := os.ReadFile("/proc/thread-self/net/ip_tables_names")
	return err == nil && slices.Contains(strings.Fields(string(names)), filterTable) // without the file, the kernel has no such tables
}

func findLegacyProgram() (string, error) {
	if path, err := exec.LookPath(programLegacy); err == nil {
		return path, nil
	}
	path, err := exec.LookPath("iptables")
	if err != nil {
		return "", errNoLegacyProgram
	}
	if real, err := filepath.EvalSymlinks(path); err != nil || filepath.Base(real) == "xtables-nft-multi" {
		return "", errNoLegacyProgram
	}
	return path, nil
}

func (t legacyTable) jumpIn(chain string) string { return "-A " + chain + " -j " + t.r.xtablesChain() }

func (t legacyTable) isOpen() (bool, error) {
	tool, err := t.tool()
	if err != nil {
		return false, err
	}
	if full, err := t.chainIsFull(tool); err != nil || !full {
		return false, err
	}
	for _, chain := range []string{forwardChain, dockerChain} {
		there, err := tool.ChainExists(filterTable, chain)
		if err != nil {
			return false, err
		}
		if !there {
			continue
		}
		lines, err := tool.List(filterTable, chain)
		if err != nil || !slices.Contains(lines, t.jumpIn(chain)) {
			return false, err
		}
	}
	return true, nil
}

func (r *Router) closeLegacy() error {
	if !hasLegacyFilter() {
		return nil
	}
	program, err := findLegacyProgram()
	if err != nil {
		return nil // without the program, Berth added no rules
	}
	tool, err := xtables{r, program}.tool()
	if err != nil {
		return err
	}
	own, err := tool.ChainExists(filterTable, r.xtablesChain())
	if err != nil || !own {
		return err
	}
	for _, chain := range []string{forwardChain, dockerChain} {
		there, err := tool.ChainExists(filterTable, chain)
		if err != nil {
			return err
		}
		if there {
			if err := tool.DeleteIfExists(filterTable, chain, "-j", r.xtablesChain()); err != nil {
				return err
			}
		}
	}
	return tool.ClearAndDeleteChain(filterTable, r.xtablesChain())
}

type unreadable struct{ xtables }

func (unreadable) isOpen() (bool, error) { return false, nil }
func (unreadable) open() error           { return errNoLegacyProgram }

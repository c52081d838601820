package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
)

const keepEvery = 30 * time.Second

// KeepHostRules restores rules that a firewall's restart removed, and adds new networks of the host, until the context
// ends.
func (r *Router) KeepHostRules(ctx context.Context) {
	if r.config.Uplink != UplinkHost {
		r.logClosing(r.closeFirewalls())
		return
	}
	rewritten, done := make(chan struct{}, 1), make(chan struct{})
	go func() { defer close(done); r.keepFirewalls(ctx, rewritten) }()
	defer func() { <-done }()
	changes, stop := watchRules()
	defer func() { stop() }()
	for {
		if err := r.assertHostRules(); err != nil {
			slog.Error("the host's rules for machines cannot be kept", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case _, watching := <-changes:
			if !watching {
				stop()
				changes, stop = nil, func() {}
			}
			select {
			case rewritten <- struct{}{}:
			default: // a check is pending already
			}
		case <-time.After(keepEvery):
			if changes == nil {
				changes, stop = watchRules()
			}
		}
	}
}

// watchRules reports changes of rules. The kernel's event queue may overflow and end the events; periodic checks find
// later changes.
func watchRules() (changes <-chan *nftables.MonitorEvents, stop func()) {
	monitor := nftables.NewMonitor()
	conn, err := nftables.New()
	if err == nil {
		changes, err = conn.AddGenerationalMonitor(monitor)
	}
	if err != nil {
		slog.Warn("changes of the host's rules are checked only at intervals", "every", keepEvery.String(), "error", err)
		return nil, func() {}
	}
	return changes, func() {
		_ = monitor.Close()
		for range changes { // drains the channel, so that the monitor can end
		}
	}
}

func (r *Router) assertHostRules() error {
	conn, err := nftables.New()
	if err != nil {
		return err
	}
	missing, err := r.missingHostRules(conn)
	if err != nil {
		return err
	}
	if missing != "" {
		slog.Warn("the host's rules for machines were changed, and are set again", "table", "inet "+r.table(), "missing", missing)
		if err := r.loadHostRules(conn); err != nil {
			return err
		}
	}
	if text, err := os.ReadFile("/proc/sys/" + forwarding); err != nil || strings.TrimSpace(string(text)) == "1" {
		return err
	}
	slog.Warn("forwarding was turned off on this host, and is turned on again: machines leave through it")
	return setSysctl(forwarding, "1")
}

func (r *Router) missingHostRules(conn *nftables.Conn) (string, error) {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return "", fmt.Errorf("read the host's tables: %w", err)
	}
	at := slices.IndexFunc(tables, func(table *nftables.Table) bool { return table.Name == r.table() })
	if at < 0 {
		return "the table", nil
	}
	table := tables[at]
	special, same, err := r.sameNeighbours(conn, table)
	if err != nil || !same {
		return "the host's networks", err
	}
	for _, wanted := range r.hostChains(table, special) {
		rules, err := conn.GetRules(table, wanted.chain)
		if errors.Is(err, os.ErrNotExist) || err == nil && len(rules) != len(wanted.rules) {
			return "rules of chain " + wanted.chain.Name, nil
		}
		if err != nil {
			return "", fmt.Errorf("read the host's chain %s: %w", wanted.chain.Name, err)
		}
	}
	return "", nil
}

func (r *Router) sameNeighbours(conn *nftables.Conn, table *nftables.Table) (*nftables.Set, bool, error) {
	neighbours, err := r.neighbours()
	if err != nil {
		return nil, false, err
	}
	special, err := conn.GetSetByName(table, "special")
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the host's set of special ranges: %w", err)
	}
	found, err := conn.GetSetElements(special)
	if err != nil {
		return nil, false, fmt.Errorf("read the host's special ranges: %w", err)
	}
	wanted := intervals(specialRanges(r.config, neighbours...))
	return special, len(found) == len(wanted) && !slices.ContainsFunc(wanted, func(element nftables.SetElement) bool {
		return !slices.ContainsFunc(found, func(other nftables.SetElement) bool {
			return other.IntervalEnd == element.IntervalEnd && bytes.Equal(other.Key, element.Key)
		})
	}), nil
}

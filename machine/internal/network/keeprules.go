package network

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const rulesEach = time.Second

var (
	errForeignChange = errors.New("somebody else changed rules in the machines' router")
	errNoSocket      = errors.New("the machines' router cannot be asked")
)

// KeepRules reloads rules that another program changed, and extends grants in use, until the context ends.
func (r *Router) KeepRules(ctx context.Context) {
	ticks := time.NewTicker(rulesEach)
	defer ticks.Stop()
	looked := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if err := r.assertRules(); err != nil {
			slog.Error("the rules of the machines' router cannot be kept", "error", err)
		}
		if now := time.Now(); now.Sub(looked) >= grantsEach {
			looked = now
			if err := r.keepGrants(now); err != nil {
				slog.Error("addresses of names may end before the connections to them", "error", err)
			}
		}
	}
}

func (r *Router) assertRules() error {
	foreign, err := r.rules.foreignChange()
	if err == nil && !foreign && !r.rules.broken.Load() {
		return nil
	}
	if err == nil {
		err = errForeignChange
	}
	return r.reload(err)
}

// foreignChange compares the kernel's generation number, which grows with every transaction.
func (t *rules) foreignChange() (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, err := t.readGeneration()
	return now != t.generation, err
}

func (t *rules) takeGeneration() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation, err = t.readGeneration()
	return err
}

func (t *rules) readGeneration() (uint32, error) {
	if t.asks == nil {
		return 0, errNoSocket
	}
	answers, err := t.asks.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}})
	if err != nil {
		return 0, fmt.Errorf("read the number of the rules: %w", err)
	}
	for _, answer := range answers {
		attributes, err := netlink.NewAttributeDecoder(answer.Data[min(4, len(answer.Data)):])
		if err != nil {
			return 0, err
		}
		attributes.ByteOrder = binary.BigEndian
		for attributes.Next() {
			if attributes.Type() == unix.NFTA_GEN_ID {
				return attributes.Uint32(), nil
			}
		}
	}
	return 0, errors.New("the kernel did not tell the number of the rules")
}

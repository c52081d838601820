package engine

import (
	"context"
	"errors"
	"net/netip"

	"github.com/berth-dev/berth/machine/internal/network"
)

// GiveAddress moves a blank sandbox to the wanted address, if that is free and the engine supports the change. After an
// error, neither this nor a later hostd can use the sandbox.
func (e *Engine) GiveAddress(ctx context.Context, s *Sandbox, wanted network.Wish) error {
	record := s.Record()
	had, err := netip.ParseAddr(record.Address)
	// A sandbox of an older build was made for this restore, already at the wanted address if possible.
	if err != nil || !wanted.Address.IsValid() || had == wanted.Address || record.Build() != e.Current() {
		return err
	}
	if able, err := e.canTellAddresses(ctx, s, had); err != nil || !able {
		return err
	}
	at, err := e.router.Move(s.Slot, wanted)
	if errors.Is(err, network.ErrTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := e.setAddress(ctx, s, at); err != nil {
		return err
	}
	return s.Update(func(r *Record) { r.Address = wanted.Address.String() })
}

// canTellAddresses sets the sandbox's own address again as a test. Another one could collide with a machine.
func (e *Engine) canTellAddresses(ctx context.Context, s *Sandbox, had netip.Addr) (bool, error) {
	if known := e.tellsAddresses.Load(); known != nil {
		return *known, nil
	}
	at, err := e.router.Move(s.Slot, network.Wish{Address: had})
	if err != nil {
		return false, err
	}
	err = e.setAddress(ctx, s, at)
	able := !isUnknownMethod(err)
	if able && err != nil {
		return false, err
	}
	if !able {
		e.log.Warn("the engine cannot tell a sandbox another address", "slot", s.Slot, "error", err)
	}
	e.tellsAddresses.Store(&able)
	return able, nil
}

func (e *Engine) setAddress(ctx context.Context, s *Sandbox, at network.Place) error {
	change := sandboxNetwork{
		FDBasedLinks:     []sandboxLink{{Name: at.Name, Addresses: addressesOf(at), Routes: routesOf(at)}},
		Defaultv4Gateway: gatewayOf(at),
	}
	_, err := e.callSandbox(ctx, s, answerBound, "containerManager.SetAddresses", change)
	return err
}

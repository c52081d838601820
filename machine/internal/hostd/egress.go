package hostd

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/network"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// applyEgress sets the kernel's rules first, then resolver and secret proxy. A nil policy means the default.
func (h *Host) applyEgress(ctx context.Context, s *engine.Sandbox, policy *wire.HostEgress) error {
	wanted := egress.Default()
	if policy != nil {
		wanted = *policy
	}
	machine, err := h.router.Machine(s.Slot)
	if err != nil {
		return err
	}
	wanted.SecretsOf = secretsOf(s, wanted)
	wasOpen := h.router.IsOpen(s.Slot)
	if err := h.router.SetEgress(s.Slot, wanted); err != nil {
		return err
	}
	if err := h.secrets.tell(ctx, machine, wanted.SecretsOf); err != nil {
		return err
	}
	switch {
	case wanted.Mode != wire.EgressAllowAll:
		return h.names.tell(ctx, machine, &wanted)
	case !wasOpen:
		return h.names.tell(ctx, machine, nil)
	}
	return nil // the resolver has no policy of the machine to change
}

// setEgress need not wait for a checkpoint, because it uses a lock of its own instead of the workspace's queue.
func (h *Host) setEgress(ctx context.Context, r wire.SetEgressRequest) (wire.EgressRevision, error) {
	s, err := h.runningMachine(r.Fence)
	if err != nil {
		return wire.EgressRevision{}, err
	}
	release, err := h.policing.acquire(ctx, s.Slot)
	if err != nil {
		return wire.EgressRevision{}, err
	}
	defer release()
	err = h.applyEgress(ctx, s, &r.Egress)
	if errors.Is(err, network.ErrUnknown) || s.Ended() {
		return wire.EgressRevision{}, refuse("not_running", "The workspace has no machine of this epoch here")
	}
	return wire.EgressRevision{Revision: r.Egress.Revision}, err
}

func (h *Host) handleSetEgress() http.Handler {
	return handleCall(h, checkSetEgress, h.setEgress, func(r wire.SetEgressRequest) call {
		return call{verb: "set_egress " + r.Egress.Revision, fence: r.Fence, unqueued: true}
	})
}

func checkSetEgress(r wire.SetEgressRequest) error {
	return cmp.Or(checkFence(r.Fence), checkEgress(&r.Egress))
}

func checkEgress(p *wire.HostEgress) error {
	if p == nil {
		return nil
	}
	if err := egress.Check(*p); err != nil {
		return refuse("bad_request", err.Error())
	}
	return nil
}

func (h *Host) egressDenials(_ context.Context, r wire.EgressDenialsRequest) (wire.EgressDenials, error) {
	answer := wire.EgressDenials{Denials: []wire.HostDenial{}}
	s := h.machine(r.Owner())
	if s == nil {
		return answer, nil
	}
	machine, err := h.router.Machine(s.Slot)
	if errors.Is(err, network.ErrUnknown) {
		return answer, nil
	}
	refused, err := h.router.Refusals(s.Slot)
	if errors.Is(err, network.ErrUnknown) {
		return answer, nil
	}
	if err != nil {
		return answer, err
	}
	for _, one := range refused {
		denial := wire.HostDenial{Address: text(one.Address.String()), Port: int(one.Port), Protocol: one.Protocol, Count: one.Count,
			FirstAt: stamp(one.First), LastAt: stamp(one.Last)}
		if len(one.Names) > 0 {
			denial.Name = text(one.Names[0])
		}
		answer.Denials = append(answer.Denials, denial)
	}
	answer.Denials = append(answer.Denials, h.names.refusedTo(machine, time.Now())...)
	slices.SortStableFunc(answer.Denials, func(a, b wire.HostDenial) int { return strings.Compare(b.LastAt, a.LastAt) })
	return answer, nil
}

func text(value string) *string { return &value }

func checkDenials(r wire.EgressDenialsRequest) error {
	if !isSubject(r.Subject) {
		return refuse("bad_request", "subject is not a kind and a UUID")
	}
	return nil
}

package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/berth-dev/berth/machine/internal/egress"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// policyFile stores a policy for the next hostd. A slot without a file has the default policy.
type policyFile struct {
	Policy wire.HostEgress `json:"policy"`
	Mark   uint32          `json:"mark"`
	// Refusals that were counted before the last reload of the rules.
	Refused []Refusal `json:"refused,omitempty"`
}

func (r *Router) policyDir() string             { return filepath.Join(r.config.RunDir, "egress") }
func (r *Router) policyPath(slot string) string { return filepath.Join(r.policyDir(), slot+".json") }

// writePolicy must precede the change of the rules. If hostd ends in between, the next one loads the new mark, and
// connections are checked again. The file is not synced, because no machine survives a power loss.
func (r *Router) writePolicy(s *slot, o outlet) error {
	past := r.pastOf(s)
	if reflect.DeepEqual(o.matcher.Policy, egress.Default()) && len(past) == 0 {
		return r.removePolicy(s.name)
	}
	text, err := json.Marshal(policyFile{Policy: o.matcher.Policy, Mark: o.mark, Refused: past})
	if err != nil {
		return err
	}
	path := r.policyPath(s.name)
	if err := os.WriteFile(path+".tmp", text, 0o600); err != nil {
		return fmt.Errorf("keep the policy of slot %s: %w", s.name, err)
	}
	return os.Rename(path+".tmp", path)
}

func (r *Router) removePolicy(slot string) error {
	if err := removeIfThere(r.policyPath(slot)); err != nil {
		return fmt.Errorf("forget the policy of slot %s: %w", slot, err)
	}
	return nil
}

// adoptPolicies reads the files. A machine whose file is unreadable can reach nothing until a policy is set.
func (r *Router) adoptPolicies() error {
	if err := os.MkdirAll(r.policyDir(), 0o700); err != nil {
		return err
	}
	for name, s := range r.slots {
		o, past, err := readPolicy(r.policyPath(name))
		if err != nil {
			slog.Error("the policy of a machine cannot be read: it reaches nothing until it gets its policy again", "slot", name, "error", err)
			o = openOutlet().with(wire.HostEgress{Revision: wire.EgressDefault, Mode: wire.EgressDenyAll})
			o.failed = true
		}
		s.outlet, s.past = o, past
	}
	return r.removeStrayPolicies()
}

func readPolicy(path string) (o outlet, past []Refusal, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return openOutlet(), nil, nil
	}
	if err != nil {
		return o, nil, err
	}
	var found policyFile
	if err := json.Unmarshal(text, &found); err != nil {
		return o, nil, err
	}
	if err := egress.Check(found.Policy); err != nil {
		return o, nil, err
	}
	o = openOutlet().with(found.Policy)
	if found.Mark != openMark || o.matcher.IsOpen() {
		o.mark = found.Mark
	}
	return o, found.Refused, nil
}

func (r *Router) removeStrayPolicies() error {
	entries, err := os.ReadDir(r.policyDir())
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".json"); !ok || r.slots[name] == nil {
			err = errors.Join(err, os.Remove(filepath.Join(r.policyDir(), entry.Name())))
		}
	}
	return err
}

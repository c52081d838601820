package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/berth-dev/berth/machine/internal/onepage"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// What a sandbox is for.
const (
	KindSlot    = "slot"    // runs the agent, waits for a disk
	KindShell   = "shell"   // created, not started: waits for a restore
	KindMachine = "machine" // belongs to a workspace
)

// How far a machine is.
const (
	Assembling = "assembling" // not answered to anybody yet: thrown away when hostd restarts
	Running    = "running"
	Pausing    = "pausing" // about to be paused, or just unpaused: ask the sandbox
	Paused     = "paused"
)

// Claim is what a machine belongs to, as far as it must survive a restart of hostd.
type Claim struct {
	Owner       string   `json:"workspace_id"` // names the subject: wire.SubjectOf
	OperationID string   `json:"operation_id"`
	Epoch       int64    `json:"epoch"`
	Fence       int64    `json:"fence"`
	State       string   `json:"state"`
	Disk        string   `json:"disk"`
	Layers      []string `json:"layers"`
	DiskGiB     int      `json:"disk_gib"`
	StartedAt   string   `json:"started_at"`
	Connected   bool     `json:"connected"`
	OOMKills    int64    `json:"oom_kills"` // of the cgroup when it was claimed
	// Volumes are those that may be mounted: written before they are, and after they are not.
	Volumes []wire.Volume `json:"volumes,omitempty"`
	// RefusedVolumes are those that its start or restore left out.
	RefusedVolumes []wire.RefusedVolume `json:"refused_volumes,omitempty"`
}

// Record is the file beside a slot. It is a hint of what to look for, never a proof that something runs.
type Record struct {
	Slot        string  `json:"slot"`
	Kind        string  `json:"kind"`
	Layout      int     `json:"layout"` // of its directory
	Ready       bool    `json:"ready"`  // a slot that answered, a shell that is created
	Size        Size    `json:"size"`
	Engine      string  `json:"engine"`
	SpecVersion int     `json:"spec_version"`
	AgentSHA256 string  `json:"agent_sha256"`
	Protocol    int     `json:"agent_protocol,omitempty"` // what its agent said it speaks; 0 before it said anything
	Address     string  `json:"address"`                  // of the guest, without port
	Nameserver  string  `json:"nameserver"`
	Sandbox     Process `json:"sandbox"`
	// Fitted are the layers below the blank disk that a slot has already, the lowest first; none: it has no disk yet.
	Fitted []string `json:"fitted,omitempty"`
	Claim  *Claim   `json:"claim,omitempty"`
}

// AgentProtocol is what its agent speaks: a record that does not say is of the time of the first.
func (r Record) AgentProtocol() int { return max(r.Protocol, 1) }

// Build is what the sandbox was started under.
func (r Record) Build() Build { return Build{Engine: r.Engine, SpecVersion: r.SpecVersion} }

// Sandbox is one sandbox, whatever it is for.
type Sandbox struct {
	Dir  string
	Slot string

	mu     sync.Mutex
	record Record
	agent  *http.Client
	done   <-chan struct{} // closed when the sandbox process ended; nil until it was seen
}

// Record is a copy of what the file says.
func (s *Sandbox) Record() Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	record := s.record
	if record.Claim != nil {
		claim := *record.Claim
		claim.Volumes = slices.Clone(claim.Volumes)
		record.Claim = &claim
	}
	return record
}

// Update changes the record and its file together.
func (s *Sandbox) Update(change func(*Record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.record)
	return writeRecord(s.Dir, s.record)
}

// Done is closed when the sandbox has ended.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Ended says whether the sandbox has ended.
func (s *Sandbox) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// root is what the sandbox gets as its root: the tree, read-only. Nobody writes by this way, and nothing but what is mounted below it
// can be written at all.
func (s *Sandbox) root() string { return filepath.Join(s.Dir, "root") }

// tree is the same directory as hostd alone reaches it.
func (s *Sandbox) tree() string { return filepath.Join(s.Dir, "tree") }

// writeRecord replaces the file in one step. It is not synced: a computer that lost its power has no sandbox left to describe.
func writeRecord(dir string, record Record) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return onepage.Write(filepath.Join(dir, "slot.json"), text)
}

func readRecord(dir string) (Record, error) {
	var record Record
	text, err := os.ReadFile(filepath.Join(dir, "slot.json"))
	if err != nil {
		return record, err
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return record, err
	}
	if record.Slot != filepath.Base(dir) {
		return record, fmt.Errorf("the record of %s names slot %q", dir, record.Slot)
	}
	if record.Kind == KindMachine && record.Claim == nil {
		return record, errors.New("a machine without a claim")
	}
	return record, nil
}

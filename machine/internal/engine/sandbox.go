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

const (
	KindWarm    = "slot"    // warm: runs the agent, waits for a claim
	KindBlank   = "shell"   // blank: created, not started, waits for a restore
	KindMachine = "machine" // belongs to a workspace
)

const (
	Assembling = "assembling" // not reported to a caller yet, so removed when hostd restarts
	Running    = "running"
	Pausing    = "pausing" // a pause or resume was not confirmed: ask the sandbox
	Paused     = "paused"
)

// Claim is what hostd must still have about a machine after a restart.
type Claim struct {
	Owner       string   `json:"workspace_id"` // owner name of the subject (wire.SubjectOf)
	OperationID string   `json:"operation_id"`
	Epoch       int64    `json:"epoch"`
	Fence       int64    `json:"fence"`
	State       string   `json:"state"`
	Disk        string   `json:"disk"`
	Layers      []string `json:"layers"`
	DiskGiB     int      `json:"disk_gib"`
	StartedAt   string   `json:"started_at"`
	Connected   bool     `json:"connected"`
	OOMKills    int64    `json:"oom_kills"` // the cgroup's count when the sandbox was claimed
	// A volume is recorded before its mount and removed from the record after its unmount.
	Volumes        []wire.Volume        `json:"volumes,omitempty"`
	RefusedVolumes []wire.RefusedVolume `json:"refused_volumes,omitempty"`
}

// Record describes a sandbox on disk. It does not prove that the sandbox runs.
type Record struct {
	Slot        string  `json:"slot"`
	Kind        string  `json:"kind"`
	Layout      int     `json:"layout"` // slotLayout of its directory
	Ready       bool    `json:"ready"`  // the agent answered, or the blank sandbox is created
	Size        Size    `json:"size"`
	Engine      string  `json:"engine"`
	SpecVersion int     `json:"spec_version"`
	AgentSHA256 string  `json:"agent_sha256"`
	Protocol    int     `json:"agent_protocol,omitempty"` // the agent's protocol version; 0 before its first answer
	Address     string  `json:"address"`                  // of the guest, without port
	Nameserver  string  `json:"nameserver"`
	Sandbox     Process `json:"sandbox"`
	// Layers below a prepared blank disk, the lowest first; empty: no disk.
	Fitted []string `json:"fitted,omitempty"`
	Claim  *Claim   `json:"claim,omitempty"`
}

// AgentProtocol is 1 for records without a protocol, which older releases wrote.
func (r Record) AgentProtocol() int { return max(r.Protocol, 1) }

func (r Record) Build() Build { return Build{Engine: r.Engine, SpecVersion: r.SpecVersion} }

type Sandbox struct {
	Dir  string
	Slot string

	mu     sync.Mutex
	record Record
	agent  *http.Client
	done   <-chan struct{} // closed when the sandbox process ended; nil before it was found
}

// Record returns a copy, which the caller may change.
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

func (s *Sandbox) Update(change func(*Record)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.record)
	return writeRecord(s.Dir, s.record)
}

func (s *Sandbox) Done() <-chan struct{} { return s.done }

func (s *Sandbox) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// root is the guest's root. It is a read-only mount; only mounts below it can be writable.
func (s *Sandbox) root() string { return filepath.Join(s.Dir, "root") }

// tree is the directory that root shows. hostd writes through this path.
func (s *Sandbox) tree() string { return filepath.Join(s.Dir, "tree") }

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

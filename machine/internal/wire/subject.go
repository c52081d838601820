package wire

import (
	"slices"
	"strings"
)

// Each owner has at most one machine at a time.
const (
	KindWorkspace    = "workspace"
	KindExecution    = "execution"     // a command on a tree of files
	KindBuild        = "build"         // of a template
	KindTestInstance = "test_instance" // of a template's draft
)

// KindVolume owns no machine: its fencing tokens guard a volume.
const KindVolume = "volume"

// Kinds can own machines.
var Kinds = []string{KindWorkspace, KindExecution, KindBuild, KindTestInstance}

// Subject owns a machine, its disks, its checkpoints and its fencing tokens.
type Subject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

func Workspace(id string) Subject { return Subject{Kind: KindWorkspace, ID: id} }

// Owner is the name in paths. A workspace's is its id alone, as before other kinds existed.
func (s Subject) Owner() string {
	if s.Kind == KindWorkspace {
		return s.ID
	}
	return s.Kind + "." + s.ID
}

// SubjectOf reverses Owner.
func SubjectOf(owner string) Subject {
	kind, id, found := strings.Cut(owner, ".")
	if !found || !slices.Contains(Kinds, kind) {
		return Workspace(owner)
	}
	return Subject{Kind: kind, ID: id}
}

package wire

import (
	"slices"
	"strings"
)

// Kinds of what machines are made for. Each of them has at most one machine at a time.
const (
	KindWorkspace    = "workspace"
	KindExecution    = "execution"     // a command on a tree of files
	KindBuild        = "build"         // of a template
	KindTestInstance = "test_instance" // of a template's draft
)

// KindVolume is no machine's: its fences guard what is stored for a volume.
const KindVolume = "volume"

// Kinds is all of them.
var Kinds = []string{KindWorkspace, KindExecution, KindBuild, KindTestInstance}

// Subject is what a machine, its disks and its checkpoints belong to, and what a fence guards.
type Subject struct {
	Kind string `json:"kind"`
	ID   string `json:"id"` // a UUID
}

// Workspace is the subject of a workspace.
func Workspace(id string) Subject { return Subject{Kind: KindWorkspace, ID: id} }

// Owner names the subject in paths and in files. A workspace's name is its id alone, as when there was no other kind; any other's begins
// with its kind.
func (s Subject) Owner() string {
	if s.Kind == KindWorkspace {
		return s.ID
	}
	return s.Kind + "." + s.ID
}

// SubjectOf reads what Owner wrote.
func SubjectOf(owner string) Subject {
	kind, id, found := strings.Cut(owner, ".")
	if !found || !slices.Contains(Kinds, kind) {
		return Workspace(owner)
	}
	return Subject{Kind: kind, ID: id}
}

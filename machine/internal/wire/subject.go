package wire

import (
	"slices"
	"strings"
)

// A volume owns no machine: its fencing tokens guard its files.
const KindVolume = "volume"

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

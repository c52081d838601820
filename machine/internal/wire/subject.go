package wire

import (
	"slices"
	"strings"
)

// A volume has no machine. Its fencing tokens protect its files.
const KindVolume = "volume"

func Workspace(id string) Subject { return Subject{Kind: KindWorkspace, ID: id} }

// Owner is the subject's name in paths. For a workspace it is the id alone, as before other kinds existed.
func (s Subject) Owner() string {
	if s.Kind == KindWorkspace {
		return s.ID
	}
	return s.Kind + "." + s.ID
}

// SubjectOf returns the subject of an owner name.
func SubjectOf(owner string) Subject {
	kind, id, found := strings.Cut(owner, ".")
	if !found || !slices.Contains(Kinds, kind) {
		return Workspace(owner)
	}
	return Subject{Kind: kind, ID: id}
}

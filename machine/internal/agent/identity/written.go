package identity

import (
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// File is one that the service writes, as it is written.
type File struct {
	Content []byte
	Mode    uint32
}

// Written is what Apply makes of a template, by path: a file that is still so is none that the workspace has changed.
func Written(template *guestroot.Root, stateDir string, in wire.Incarnation) map[string]File {
	files := map[string]File{}
	if in.Hostname != "" {
		files["/etc/hostname"] = File{hostname(in), textMode}
		files["/etc/hosts"] = File{hosts(template, in), textMode}
	}
	if in.Nameserver != "" {
		files["/etc/resolv.conf"] = File{resolver(in), textMode}
	}
	if seen := readMarker(stateDir); seen.WorkspaceID == in.WorkspaceID && seen.MachineID != "" {
		files["/etc/machine-id"] = File{seen.content(), machineIDMode}
	}
	return files
}

package identity

import (
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

type File struct {
	Content []byte
	Mode    uint32
}

// ServiceFiles returns the files that Apply writes over a template. A file that matches is not listed as a change of
// the workspace.
func ServiceFiles(template *guestroot.Root, stateDir string, in wire.Incarnation) map[string]File {
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

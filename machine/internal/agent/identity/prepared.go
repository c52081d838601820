package identity

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Prepared is a tree without a workspace. Its files that depend on the workspace are open for Claim.
type Prepared struct {
	hostname, hosts, marker *os.File
	machineID               string
}

// Prepare does the part of Apply that needs no workspace. After an error the tree must be discarded.
func Prepare(r *guestroot.Root, stateDir string, slot wire.Incarnation) (*Prepared, error) {
	p := &Prepared{machineID: newMachineID()}
	err := errors.Join(replace(r, "resolv.conf", resolver(slot), textMode), replace(r, "machine-id", marker{MachineID: p.machineID}.content(), machineIDMode))
	if err == nil {
		err = p.open(r, stateDir)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *Prepared) open(r *guestroot.Root, stateDir string) error {
	others := otherHosts(r)
	etc, err := openEtc(r)
	if err != nil {
		return err
	}
	defer unix.Close(etc)
	if p.hostname, err = create(etc, "hostname", textMode); err != nil {
		return err
	}
	if p.hosts, err = create(etc, "hosts", textMode); err != nil {
		return err
	}
	if _, err := p.hosts.Write(others); err != nil {
		return err
	}
	p.marker, err = os.OpenFile(markerPath(stateDir), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	return err
}

// Claim writes the remaining files, so that the tree has everything that Apply writes.
func (p *Prepared) Claim(in wire.Incarnation) error {
	defer p.close()
	_, ofHostname := p.hostname.Write(hostname(in))
	_, ofHosts := p.hosts.Write(ownHost(in))
	_, ofMarker := p.marker.Write(marker{WorkspaceID: in.WorkspaceID, MachineID: p.machineID}.text())
	return errors.Join(unix.Sethostname([]byte(in.Hostname)), ofHostname, ofHosts, ofMarker)
}

func (p *Prepared) close() {
	for _, f := range []*os.File{p.hostname, p.hosts, p.marker} {
		if f != nil {
			f.Close()
		}
	}
}

package engine

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/machine/internal/network"
)

// A restore over the control socket is 15 ms faster than a run of `runsc restore`. Field names follow gVisor's
// runsc/boot/network.go and controller.go; tests that restore notice a change.

type sandboxNetwork struct {
	LoopbackLinks    []sandboxLink
	FDBasedLinks     []sandboxLink
	Defaultv4Gateway sandboxGateway
	IsRestore        bool
}

type sandboxLink struct {
	Name              string
	MTU               int `json:",omitempty"`
	Addresses         []sandboxAddress
	Routes            []sandboxRoute
	GSOMaxSize        uint32           `json:",omitempty"`
	RXChecksumOffload bool             `json:",omitempty"`
	LinkAddress       net.HardwareAddr `json:",omitempty"`
	QDisc             int              `json:",omitempty"`
	NumChannels       int              `json:",omitempty"`
}

type sandboxAddress struct {
	Address   net.IP
	PrefixLen int
}

type sandboxRoute struct {
	Destination net.IPNet
	Gateway     net.IP
}

type sandboxGateway struct {
	Route sandboxRoute
	Name  string
}

const queueFIFO = 1

func (e *Engine) giveNetwork(ctx context.Context, s *Sandbox) error {
	link, err := e.router.HandOut(s.Slot)
	if err != nil {
		return err
	}
	defer link.Socket.Close()
	_, err = e.callSandbox(ctx, s, answerBound, "containerManager.SetNetworkArgs", networkOf(link), link.Socket)
	return err
}

func networkOf(link *network.Handout) sandboxNetwork {
	loopback := net.IPNet{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}
	return sandboxNetwork{
		LoopbackLinks: []sandboxLink{{
			Name:      "lo",
			Addresses: []sandboxAddress{{net.IPv4(127, 0, 0, 1).To4(), 8}},
			Routes:    []sandboxRoute{{Destination: loopback}},
		}},
		FDBasedLinks: []sandboxLink{{
			Name: link.Name, MTU: link.MTU, GSOMaxSize: link.GSOBytes, RXChecksumOffload: true, LinkAddress: link.Hardware,
			QDisc: queueFIFO, NumChannels: 1,
			Addresses: addressesOf(link.Place),
			Routes:    routesOf(link.Place),
		}},
		Defaultv4Gateway: gatewayOf(link.Place),
		IsRestore:        true,
	}
}

func addressesOf(at network.Place) []sandboxAddress {
	return []sandboxAddress{{at.Address.Addr().AsSlice(), at.Address.Bits()}}
}

func routesOf(at network.Place) []sandboxRoute {
	subnet := at.Address.Masked()
	return []sandboxRoute{{Destination: net.IPNet{IP: subnet.Addr().AsSlice(), Mask: net.CIDRMask(subnet.Bits(), 32)}}}
}

func gatewayOf(at network.Place) sandboxGateway {
	anywhere := net.IPNet{IP: net.IPv4zero, Mask: net.IPMask(net.IPv4zero)}
	return sandboxGateway{Route: sandboxRoute{Destination: anywhere, Gateway: at.Gateway.AsSlice()}, Name: at.Name}
}

func OpenImage(image string) ([]*os.File, error) {
	var files []*os.File
	for _, name := range ImageFiles {
		file, err := os.Open(filepath.Join(image, name))
		if err != nil {
			closeAll(files)
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// In the background, a bad page could end the sandbox after hostd reported it as running.
func (e *Engine) restoreImage(ctx context.Context, s *Sandbox, files []*os.File) error {
	options := map[string]bool{"HavePagesFile": true, "HaveDeviceFile": false, "Background": false}
	_, err := e.callSandbox(ctx, s, commandTime, "containerManager.Restore", options, files...)
	return err
}

// spareSpaces counts the address spaces for the agent, one or two programs, and the first command.
const spareSpaces = 4

// prepareRestore does nothing on an engine that is not a build of machine/runsc, because it has no Prepare.
func (e *Engine) prepareRestore(ctx context.Context, s *Sandbox) error {
	_, err := e.callSandbox(ctx, s, answerBound, "containerManager.Prepare", map[string]int{"AddressSpaces": spareSpaces})
	if isUnknownMethod(err) {
		return nil
	}
	return err
}

// The two texts have equal lengths, so that one can overwrite the other in runsc's container file.
const (
	statusCreated = `"status":"created"`
	statusRunning = `"status":"running"`
)

// noteRunning updates runsc's container file, which a start over the control socket bypasses. Only runsc's commands
// read that file; hostd runs none on a machine.
func (e *Engine) noteRunning(s *Sandbox) error {
	id := e.containerID(s.Slot)
	file, err := os.OpenFile(filepath.Join(e.runscRoot(), id+"_sandbox:"+id+".state"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	at := bytes.Index(text, []byte(statusCreated))
	if at < 0 {
		return fmt.Errorf("%s does not say %s", file.Name(), statusCreated)
	}
	_, err = file.WriteAt([]byte(statusRunning), int64(at))
	return err
}

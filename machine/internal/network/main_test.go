package network

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
)

// The network namespace plays the host: no packet can leave the computer.
func TestMain(m *testing.M) {
	os.Exit(testns.Run(m, syscall.CLONE_NEWNET, onlyLoopback, forwardingOff))
}

// forwardingOff makes it a host that nobody has changed. A new namespace takes its forwarding from the computer's own, which a service
// that runs there has turned on.
func forwardingOff() error { return setSysctl(forwarding, "0") }

func onlyLoopback() error {
	if links, err := net.Interfaces(); err != nil || len(links) != 1 {
		return fmt.Errorf("not in a network namespace of their own: %v %v", links, err)
	}
	return nil
}

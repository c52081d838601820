package network

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
)

// In this network namespace, no packet can leave the computer.
func TestMain(m *testing.M) {
	os.Exit(testns.Run(m, syscall.CLONE_NEWNET, onlyLoopback, forwardingOff))
}

// A new namespace inherits forwarding, which a service may have turned on.
func forwardingOff() error { return setSysctl(forwarding, "0") }

func onlyLoopback() error {
	if links, err := net.Interfaces(); err != nil || len(links) != 1 {
		return fmt.Errorf("not in a network namespace of their own: %v %v", links, err)
	}
	return nil
}

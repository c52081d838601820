package network

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
)

// The tests run in their own network namespace, so no packet can leave the computer.
func TestMain(m *testing.M) {
	os.Exit(testns.Run(m, syscall.CLONE_NEWNET, onlyLoopback, forwardingOff))
}

// forwardingOff is needed if a service has turned forwarding on: a new namespace inherits the setting.
func forwardingOff() error { return setSysctl(forwarding, "0") }

func onlyLoopback() error {
	if links, err := net.Interfaces(); err != nil || len(links) != 1 {
		return fmt.Errorf("not in a network namespace of their own: %v %v", links, err)
	}
	return nil
}

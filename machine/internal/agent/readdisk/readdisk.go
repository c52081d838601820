// Package readdisk reads a hibernated workspace's disk. hostd starts it, with the descriptors in wire/disk.go.
package readdisk

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/jail"
	"github.com/berth-dev/berth/machine/internal/agent/server"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Serve returns when no call arrives for the idle time of the setup. The process exits when hostd ends.
func Serve() error {
	debug.SetMemoryLimit(96 << 20)
	time.Local = time.UTC // a time zone would be read from the workspace's disk
	ready := os.NewFile(wire.DiskReaderReadyFD, "ready")
	listener, root, reads, err := prepare()
	if err != nil {
		_, _ = ready.WriteString(err.Error()) // hostd logs it
		return err
	}
	if _, err := ready.WriteString(wire.DiskReaderReady); err != nil {
		return err
	}
	ready.Close()
	return server.ServeDisk(listener, root, reads)
}

func prepare() (net.Listener, *guestroot.Root, server.DiskReads, error) {
	var reads server.DiskReads
	unix.Close(wire.DiskReaderAgentFD)
	pipe := bufio.NewReader(os.NewFile(wire.DiskReaderSetupFD, "setup"))
	setup, err := readSetup(pipe)
	if err != nil {
		return nil, nil, reads, fmt.Errorf("setup: %w", err)
	}
	reads = server.DiskReads{Key: setup.Key, Epoch: setup.Epoch, Idle: time.Duration(setup.IdleMS) * time.Millisecond}
	socket := os.NewFile(wire.DiskReaderSocketFD, "socket")
	listener, err := net.FileListener(socket)
	socket.Close()
	if err != nil {
		return nil, nil, reads, err
	}
	if err := jail.EnterDisk(wire.DiskReaderMountFD, setup.MountPoint); err != nil {
		return nil, nil, reads, err
	}
	unix.Umask(0o777)
	root, err := guestroot.OpenDisk("/")
	if err != nil {
		return nil, nil, reads, err
	}
	if err := jail.GiveUpRights(); err != nil {
		return nil, nil, reads, err
	}
	go endWith(pipe)
	return listener, root, reads, nil
}

func readSetup(pipe *bufio.Reader) (wire.DiskReaderSetup, error) {
	var setup wire.DiskReaderSetup
	line, err := pipe.ReadSlice('\n') // limited by the reader's buffer
	if err != nil {
		return setup, err
	}
	return setup, json.Unmarshal(line, &setup)
}

func endWith(pipe io.Reader) {
	_, _ = io.Copy(io.Discard, pipe)
	os.Exit(0)
}

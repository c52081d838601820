// Package guestssh is an SSH server for one connection, which runs as its process's user. It does not authenticate the
// client: only Berth's API reaches its streams, and has authenticated the caller.
package guestssh

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

// Serve reads the 32-byte seed of the host key from the input before the SSH connection begins.
func Serve(in io.Reader, out io.Writer) error {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(in, seed); err != nil {
		return fmt.Errorf("read the seed of the host key: %w", err)
	}
	hostKey, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
	if err != nil {
		return fmt.Errorf("make the host key: %w", err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: "SSH-2.0-Berth"}
	config.AddHostKey(hostKey)
	conn, channels, requests, err := ssh.NewServerConn(&streams{in, out}, config)
	if err != nil {
		return fmt.Errorf("begin the connection: %w", err)
	}
	forwards := newForwards(conn)
	defer forwards.close()
	go forwards.serve(requests)
	for channel := range channels {
		switch channel.ChannelType() {
		case "session":
			go serveSession(channel)
		case "direct-tcpip", "direct-streamlocal@openssh.com":
			go dial(channel)
		default:
			_ = channel.Reject(ssh.UnknownChannelType, "only sessions and forwards are served")
		}
	}
	return nil
}

type streams struct {
	io.Reader
	io.Writer
}

func (s *streams) Close() error {
	for _, each := range []any{s.Reader, s.Writer} {
		if closer, ok := each.(io.Closer); ok {
			_ = closer.Close()
		}
	}
	return nil
}

func (*streams) LocalAddr() net.Addr              { return here{} }
func (*streams) RemoteAddr() net.Addr             { return here{} }
func (*streams) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (*streams) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (*streams) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type here struct{}

func (here) Network() string { return "pipe" }
func (here) String() string  { return "pipe" }

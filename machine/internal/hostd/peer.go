package hostd

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/accepting"
)

// peerListener accepts root and one user. The peer cannot forge its uid, because the kernel reports it.
type peerListener struct {
	net.Listener
	uid uint32
}

func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := accepting.Next(l.Listener)
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(conn.(*net.UnixConn))
		if err == nil && (uid == 0 || uid == l.uid) {
			return conn, nil
		}
		conn.Close()
	}
}

func peerUID(conn *net.UnixConn) (uint32, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return peer.Uid, nil
}

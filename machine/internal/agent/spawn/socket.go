package spawn

import (
	"io"

	"golang.org/x/sys/unix"
)

func readMessage(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			return 0, io.EOF
		}
		return n, err
	}
}

func recvWithFDs(fd int, b []byte) (int, []int, error) {
	var oob [64]byte
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fd, b, oob[:], unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if n == 0 && oobn == 0 {
			return 0, nil, io.EOF
		}
		fds := parseFDs(oob[:oobn])
		if flags&unix.MSG_TRUNC != 0 {
			n = 0
		}
		return n, fds, nil
	}
}

func parseFDs(oob []byte) []int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var all []int
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}

func sendMessage(fd int, b, oob []byte) error {
	for {
		_, err := unix.SendmsgN(fd, b, oob, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

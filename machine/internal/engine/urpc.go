package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// answerMax bounds an answer, because a compromised sandbox is trusted no more than its guest.
const answerMax = 16 << 20

type controlAnswer struct {
	Success bool            `json:"success"`
	Err     string          `json:"err"`
	Result  json.RawMessage `json:"result"`
}

// control sends one JSON value with the files at its first byte, and reads one. runsc's command line would add 11-15 ms
// to a guest's pause.
func control(ctx context.Context, socket, method string, arg any, files ...*os.File) (json.RawMessage, error) {
	conn, err := dialControl(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := sendCall(conn, method, arg, files); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	var answer controlAnswer
	if err := json.NewDecoder(io.LimitReader(conn, answerMax)).Decode(&answer); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	if !answer.Success {
		return nil, fmt.Errorf("%s: %s", method, answer.Err)
	}
	return answer.Result, nil
}

func sendCall(conn *net.UnixConn, method string, arg any, files []*os.File) error {
	call, err := json.Marshal(struct {
		Method string `json:"method"`
		Arg    any    `json:"arg"`
	}{method, arg})
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, file := range files {
			fds[i] = int(file.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	n, _, err := conn.WriteMsgUnix(call, rights, nil)
	if err != nil {
		return err
	}
	_, err = conn.Write(call[n:])
	return err
}

// connect accepts at most 107 bytes of a path, so dialControl connects through /proc/self/fd.
func dialControl(ctx context.Context, socket string) (*net.UnixConn, error) {
	fd, err := unix.Open(socket, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

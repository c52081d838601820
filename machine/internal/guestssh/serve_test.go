package guestssh

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func connect(t *testing.T) *ssh.Client {
	t.Helper()
	seed := bytes.Repeat([]byte{7}, ed25519.SeedSize)
	here, there := pair(t)
	served := make(chan error, 1)
	go func() { served <- Serve(io.MultiReader(bytes.NewReader(seed), there), there) }()
	wanted, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed).Public())
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ClientConfig{User: "user", HostKeyCallback: ssh.FixedHostKey(wanted), Timeout: 10 * time.Second}
	conn, channels, requests, err := ssh.NewClientConn(here, "guest", config)
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() {
		_ = client.Close()
		_ = there.Close()
		select {
		case <-served:
		case <-time.After(testns.Patience(10 * time.Second)):
			t.Error("the server goes on after its client has left")
		}
	})
	return client
}

// net.Pipe has no buffer, so two sides that both write first would block each other.
func pair(t *testing.T) (here, there net.Conn) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "pair"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if here, err = net.Dial("unix", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return here, there
}

func opened(t *testing.T, client *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestACommandHasItsInputOutputErrorsAndExitCode(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	t.Setenv("HOME", t.TempDir())
	client := connect(t)
	s := opened(t, client)
	large := strings.Repeat("berth", 500_000)
	var errs bytes.Buffer
	s.Stdin, s.Stderr = strings.NewReader(large), &errs
	if err := s.Setenv("LC_ALL", "C"); err != nil {
		t.Error(err)
	}
	if err := s.Setenv("LD_PRELOAD", "/x"); err == nil {
		t.Error("the client sets any variable of the environment")
	}
	out, err := s.Output(`cat; echo "$LC_ALL" >&2; pwd >&2; exit 9`)
	var ended *ssh.ExitError
	if !errors.As(err, &ended) || ended.ExitStatus() != 9 || string(out) != large {
		t.Errorf("%v, %d bytes", err, len(out))
	}
	if got := errs.String(); got != "C\n"+os.Getenv("HOME")+"\n" {
		t.Errorf("%q", got)
	}
	s = opened(t, client)
	if _, err := s.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if out, err := s.CombinedOutput("echo done; kill -TERM $$"); string(out) != "done\n" || !strings.Contains(fmt.Sprint(err), "143") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestATerminalHasItsSizeAndItsKind(t *testing.T) {
	t.Setenv("SHELL", "/bin/sh")
	s := opened(t, connect(t))
	if err := s.RequestPty("tmux-256color", 33, 91, nil); err != nil {
		t.Fatal(err)
	}
	input, _ := s.StdinPipe()
	output, _ := s.StdoutPipe()
	if err := s.Start(`echo $TERM; stty size; read line; stty size; sleep 100 < /dev/tty & exit 3`); err != nil {
		t.Fatal(err)
	}
	waitFor(t, output, "tmux-256color\r\n33 91\r\n")
	if err := s.WindowChange(20, 70); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(input, "\n")
	waitFor(t, output, "\r\n20 70\r\n") // the typed line and its output
	var ended *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &ended) || ended.ExitStatus() != 3 {
		t.Error(err)
	}
}

func TestASignalReachesACommand(t *testing.T) {
	s := opened(t, connect(t))
	output, _ := s.StdoutPipe()
	if err := s.Start(`trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.1; done`); err != nil {
		t.Fatal(err)
	}
	waitFor(t, output, "ready\n")
	if err := s.Signal(ssh.SIGINT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, output, "caught\n")
	var ended *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &ended) || ended.ExitStatus() != 5 {
		t.Error(err)
	}
}

func TestFilesGoOverSftp(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	files, err := sftp.NewClient(connect(t))
	if err != nil {
		t.Fatal(err)
	}
	file, err := files.Create("below")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if got, err := os.ReadFile(filepath.Join(home, "below")); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
	_ = files.Close()
}

func TestForwardsGoBothWaysAndWhatHasSaidAllStillHears(t *testing.T) {
	client := connect(t)
	answering := func(network, address string) net.Listener {
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		return listener
	}
	socket := filepath.Join(t.TempDir(), "near")
	for _, listener := range []net.Listener{answering("tcp", "127.0.0.1:0"), answering("unix", socket)} {
		go answerAll(listener)
		conn, err := client.Dial(listener.Addr().Network(), listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		checkAnswer(t, conn)
	}
	if _, err := client.Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("a port without a listener accepts")
	}
	back := filepath.Join(t.TempDir(), "back")
	remote, err := client.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	remoteSocket, err := client.ListenUnix(back)
	if err != nil {
		t.Fatal(err)
	}
	for _, listener := range []net.Listener{remote, remoteSocket} {
		go answerAll(listener)
	}
	for network, address := range map[string]string{"tcp": remote.Addr().String(), "unix": back} {
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		checkAnswer(t, conn)
	}
	_ = remote.Close()
	if _, err := net.Dial("tcp", remote.Addr().String()); err == nil {
		t.Error("a forward that was cancelled still listens")
	}
}

func TestNoAgentAndNoScreenOfTheClientIsReached(t *testing.T) {
	s := opened(t, connect(t))
	for _, name := range []string{"auth-agent-req@openssh.com", "x11-req"} {
		if ok, err := s.SendRequest(name, true, nil); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

func answerAll(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			heard, _ := io.ReadAll(conn)
			_, _ = io.WriteString(conn, "heard "+string(heard))
			_ = conn.Close()
		}()
	}
}

func checkAnswer(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	_, _ = io.WriteString(conn, "all")
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "heard all" {
		t.Errorf("%q, %v", got, err)
	}
}

func waitFor(t *testing.T, output io.Reader, wanted string) {
	t.Helper()
	got := make([]byte, len(wanted))
	if _, err := io.ReadFull(output, got); err != nil || string(got) != wanted {
		t.Fatalf("%q, %v", got, err)
	}
}

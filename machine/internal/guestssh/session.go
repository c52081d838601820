package guestssh

import (
	"errors"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

const (
	couldNotStart = 127
	// A terminal that is silent for this long after its command ended has shown all output.
	silence = 200 * time.Millisecond
)

type session struct {
	channel ssh.Channel
	env     []string
	// size is nil if the client requested no terminal.
	size     *pty.Winsize
	term     string
	mu       sync.Mutex // guards the fields below, which are set while a command runs
	terminal *os.File
	process  *os.Process
}

type (
	ptyRequest struct {
		Term                      string
		Cols, Rows, Width, Height uint32
		Modes                     string
	}
	sizeRequest struct{ Cols, Rows, Width, Height uint32 }
	envRequest  struct{ Name, Value string }
	textRequest struct{ Text string }
	exitStatus  struct{ Status uint32 }
)

func serveSession(asked ssh.NewChannel) {
	channel, requests, err := asked.Accept()
	if err != nil {
		return
	}
	s := &session{channel: channel}
	started := false
	for request := range requests {
		ok := false
		switch request.Type {
		case "shell", "exec", "subsystem":
			ok = !started && s.start(request)
			started = started || ok
		default:
			ok = s.set(request)
		}
		if request.WantReply {
			_ = request.Reply(ok, nil)
		}
	}
	s.hangUp()
}

func (s *session) set(request *ssh.Request) bool {
	switch request.Type {
	case "pty-req":
		var asked ptyRequest
		if ssh.Unmarshal(request.Payload, &asked) != nil {
			return false
		}
		s.size, s.term = sizeOf(asked.Cols, asked.Rows), asked.Term
		return true
	case "window-change":
		var asked sizeRequest
		if ssh.Unmarshal(request.Payload, &asked) != nil {
			return false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.terminal != nil && pty.Setsize(s.terminal, sizeOf(asked.Cols, asked.Rows)) == nil
	case "env":
		var asked envRequest
		if ssh.Unmarshal(request.Payload, &asked) != nil || !isOfLanguage(asked.Name) {
			return false
		}
		s.env = append(s.env, asked.Name+"="+asked.Value)
		return true
	case "signal":
		var asked textRequest
		return ssh.Unmarshal(request.Payload, &asked) == nil && s.signal(asked.Text)
	}
	return false // includes agent and X11 forwarding
}

func sizeOf(cols, rows uint32) *pty.Winsize {
	return &pty.Winsize{Cols: uint16(cols), Rows: uint16(rows)}
}

func isOfLanguage(name string) bool {
	return name == "LANG" || strings.HasPrefix(name, "LC_")
}

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

func (s *session) signal(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	number, known := signals[name]
	return known && s.process != nil && syscall.Kill(-s.process.Pid, number) == nil
}

func (s *session) start(request *ssh.Request) bool {
	var asked textRequest
	if request.Type != "shell" && ssh.Unmarshal(request.Payload, &asked) != nil {
		return false
	}
	if request.Type == "subsystem" {
		if asked.Text != "sftp" {
			return false
		}
		go s.serveFiles()
		return true
	}
	command := s.command(request.Type == "shell", asked.Text)
	if s.size != nil {
		go s.runOnTerminal(command)
	} else {
		go s.runOnPipes(command)
	}
	return true
}

func (s *session) command(isShell bool, line string) *exec.Cmd {
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	command := exec.Command(shell)
	if isShell {
		command.Args = []string{"-" + filepath.Base(shell)}
	} else {
		command.Args = []string{shell, "-c", line}
	}
	command.Dir = os.Getenv("HOME")
	command.Env = append(os.Environ(), "SSH_CONNECTION=127.0.0.1 0 127.0.0.1 22", "SSH_CLIENT=127.0.0.1 0 22")
	command.Env = append(command.Env, s.env...)
	return command
}

func (s *session) runOnPipes(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Stdout, command.Stderr = s.channel, s.channel.Stderr()
	// Run would also wait for the end of the input, which may come after the command's.
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		s.failed(err)
		return
	}
	s.begun(command.Process, nil)
	go func() {
		_, _ = io.Copy(input, s.channel)
		_ = input.Close()
	}()
	s.ended(command.Wait())
}

func (s *session) runOnTerminal(command *exec.Cmd) {
	terminal, replica, err := pty.Open()
	if err != nil {
		s.failed(err)
		return
	}
	defer terminal.Close()
	command.Stdin, command.Stdout, command.Stderr = replica, replica, replica
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	command.Env = append(command.Env, "TERM="+s.term, "SSH_TTY="+replica.Name())
	_ = pty.Setsize(terminal, s.size)
	err = command.Start()
	_ = replica.Close()
	if err != nil {
		s.failed(err)
		return
	}
	s.begun(command.Process, terminal)
	go func() { _, _ = io.Copy(terminal, s.channel) }()
	shown := show(s.channel, terminal)
	err = command.Wait()
	shown()
	s.begun(nil, nil)
	s.ended(err)
}

// show returns a function that waits for the rest of the output, but not for a silent process on the terminal.
func show(to io.Writer, terminal io.Reader) func() {
	done := make(chan struct{})
	var silent atomic.Int32
	go func() {
		defer close(done)
		buffer := make([]byte, 32<<10)
		for {
			n, err := terminal.Read(buffer)
			silent.Store(-1 << 20)
			if n > 0 {
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
			silent.Store(0)
		}
	}()
	return func() {
		ticker := time.NewTicker(silence / 4)
		defer ticker.Stop()
		for silent.Load() < 4 {
			select {
			case <-done:
				return
			case <-ticker.C:
				silent.Add(1)
			}
		}
	}
}

func (s *session) begun(process *os.Process, terminal *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, s.terminal = process, terminal
}

// Only a command on a terminal gets SIGHUP. As with OpenSSH, programs on pipes notice a closed pipe.
func (s *session) hangUp() {
	s.mu.Lock()
	terminal := s.terminal
	s.mu.Unlock()
	if terminal != nil {
		s.signal("HUP")
		_ = terminal.Close()
	}
}

func (s *session) failed(err error) {
	_, _ = io.WriteString(s.channel.Stderr(), err.Error()+"\n")
	s.exit(couldNotStart)
}

func (s *session) ended(err error) {
	var ended *exec.ExitError
	switch {
	case err == nil:
		s.exit(0)
	case errors.As(err, &ended):
		s.exit(codeOf(ended))
	default:
		s.failed(err)
	}
}

func codeOf(ended *exec.ExitError) int {
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return ended.ExitCode()
}

func (s *session) exit(code int) {
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(exitStatus{uint32(code)}))
	_ = s.channel.Close()
}

func (s *session) serveFiles() {
	server, err := sftp.NewServer(s.channel, sftp.WithServerWorkingDirectory(os.Getenv("HOME")))
	if err != nil {
		s.failed(err)
		return
	}
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		log.Print(err)
	}
	s.exit(0)
}

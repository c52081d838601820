package guestssh

import (
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
)

// These types follow RFC 4254, section 7, and OpenSSH's PROTOCOL, section 2.4.
type (
	tcpChannel struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	socketChannel struct {
		Path      string
		Reserved  string
		Reserved2 uint32
	}
	forwardedSocket struct {
		Path     string
		Reserved string
	}
	tcpForward struct {
		Host string
		Port uint32
	}
	socketForward struct{ Path string }
	boundPort     struct{ Port uint32 }
)

func dial(asked ssh.NewChannel) {
	network, address, err := placeOf(asked)
	if err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	channel, requests, err := asked.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	join(channel, conn)
}

func placeOf(asked ssh.NewChannel) (network, address string, err error) {
	if asked.ChannelType() == "direct-tcpip" {
		var to tcpChannel
		err = ssh.Unmarshal(asked.ExtraData(), &to)
		return "tcp", addressOf(to.Host, to.Port), err
	}
	var to socketChannel
	err = ssh.Unmarshal(asked.ExtraData(), &to)
	return "unix", to.Path, err
}

func addressOf(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.FormatUint(uint64(port), 10))
}

type forwards struct {
	conn      ssh.Conn
	mu        sync.Mutex
	listeners map[string]net.Listener
}

func newForwards(conn ssh.Conn) *forwards {
	return &forwards{conn: conn, listeners: map[string]net.Listener{}}
}

func (f *forwards) serve(requests <-chan *ssh.Request) {
	for request := range requests {
		ok, answer := f.answer(request)
		if request.WantReply {
			_ = request.Reply(ok, answer)
		}
	}
}

func (f *forwards) answer(request *ssh.Request) (bool, []byte) {
	switch request.Type {
	case "tcpip-forward", "cancel-tcpip-forward":
		var asked tcpForward
		if ssh.Unmarshal(request.Payload, &asked) != nil {
			return false, nil
		}
		if request.Type == "cancel-tcpip-forward" {
			return f.drop(addressOf(asked.Host, asked.Port)), nil
		}
		return f.listenTCP(asked)
	case "streamlocal-forward@openssh.com", "cancel-streamlocal-forward@openssh.com":
		var asked socketForward
		if ssh.Unmarshal(request.Payload, &asked) != nil {
			return false, nil
		}
		if request.Type == "cancel-streamlocal-forward@openssh.com" {
			return f.drop(asked.Path), nil
		}
		return f.listenSocket(asked.Path), nil
	}
	return false, nil // includes keepalive@openssh.com, for which any answer is a sign of life
}

func (f *forwards) listenTCP(asked tcpForward) (bool, []byte) {
	// As in sshd, only programs of the guest reach forwarded ports, whatever address the client names.
	listener, err := net.Listen("tcp", addressOf("127.0.0.1", asked.Port))
	if err != nil {
		return false, nil
	}
	port := uint32(listener.Addr().(*net.TCPAddr).Port)
	f.keep(addressOf(asked.Host, port), listener)
	go f.accept(listener, "forwarded-tcpip", func(conn net.Conn) []byte {
		from := conn.RemoteAddr().(*net.TCPAddr)
		return ssh.Marshal(tcpChannel{asked.Host, port, from.IP.String(), uint32(from.Port)})
	})
	if asked.Port != 0 {
		return true, nil
	}
	return true, ssh.Marshal(boundPort{port})
}

func (f *forwards) listenSocket(path string) bool {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return false
	}
	f.keep(path, listener)
	go f.accept(listener, "forwarded-streamlocal@openssh.com", func(net.Conn) []byte { return ssh.Marshal(forwardedSocket{Path: path}) })
	return true
}

func (f *forwards) accept(listener net.Listener, kind string, about func(net.Conn) []byte) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			channel, requests, err := f.conn.OpenChannel(kind, about(conn))
			if err != nil {
				_ = conn.Close()
				return
			}
			go ssh.DiscardRequests(requests)
			join(channel, conn)
		}()
	}
}

func (f *forwards) keep(name string, listener net.Listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners[name] = listener
}

func (f *forwards) drop(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	listener := f.listeners[name]
	delete(f.listeners, name)
	return listener != nil && listener.Close() == nil
}

func (f *forwards) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, listener := range f.listeners {
		_ = listener.Close()
	}
}

type half interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// Each direction is closed separately, because a side whose output is closed can still receive.
func join(channel ssh.Channel, conn net.Conn) {
	both := sync.WaitGroup{}
	carry := func(to, from half) {
		defer both.Done()
		_, _ = io.Copy(to, from)
		_ = to.CloseWrite()
	}
	both.Add(2)
	go carry(channel, conn.(half))
	go carry(conn.(half), channel)
	both.Wait()
	_ = channel.Close()
	_ = conn.Close()
}

package resolver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

const (
	resolverTimeout = 2 * time.Second
	askTimeout      = 5 * time.Second // time limit over all resolvers
	dnsPort         = 53
	resolvConf      = "/etc/resolv.conf"
)

// ask returns the first usable answer. It returns nil if no resolver answered in time, or all failed or refused.
func (s *Server) ask(ctx context.Context, question *dns.Msg, network string) *dns.Msg {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, resolver := range s.Resolvers() {
		answer, err := s.exchange(ctx, copyQuestion(question), network, resolver)
		if err == nil && answer.Rcode != dns.RcodeServerFailure && answer.Rcode != dns.RcodeRefused {
			answer.Id = question.Id
			answer.Compress = true
			return answer
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

func copyQuestion(question *dns.Msg) *dns.Msg {
	fresh := new(dns.Msg)
	fresh.Id, fresh.RecursionDesired, fresh.CheckingDisabled = dns.Id(), question.RecursionDesired, question.CheckingDisabled
	fresh.Question = question.Question
	if option := question.IsEdns0(); option != nil {
		fresh.SetEdns0(answerBytesMax, option.Do())
	}
	return fresh
}

// exchange uses a new socket for each question, so that a forger must also guess the port.
func (s *Server) exchange(ctx context.Context, question *dns.Msg, network string, resolver netip.AddrPort) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, resolverTimeout)
	defer cancel()
	conn, err := s.Dial(ctx, network, resolver)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := &dns.Client{Net: network, Timeout: resolverTimeout, UDPSize: 4096}
	answer, _, err := client.ExchangeWithConnContext(ctx, question, &dns.Conn{Conn: conn})
	if err != nil {
		return nil, err
	}
	if len(answer.Question) != 1 || answer.Question[0] != question.Question[0] {
		return nil, errors.New("the resolver answered another question")
	}
	return answer, nil
}

func ParseResolver(text string) (netip.AddrPort, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(address, dnsPort), nil
	}
	resolver, err := netip.ParseAddrPort(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("resolver %q is neither an address nor address:port", text)
	}
	return resolver, nil
}

// hostResolvers reads /etc/resolv.conf again when it changes, as on a laptop that changes networks. It holds the
// directory open, because the confined process cannot open absolute paths.
type hostResolvers struct {
	dir     *os.File
	mu      sync.Mutex
	changed unix.Timespec
	known   []netip.AddrPort
}

func openHostResolvers() (*hostResolvers, error) {
	dir, err := os.Open(filepath.Dir(resolvConf))
	return &hostResolvers{dir: dir}, err
}

func (h *hostResolvers) read() []netip.AddrPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	var stat unix.Stat_t
	if err := unix.Fstatat(int(h.dir.Fd()), filepath.Base(resolvConf), &stat, 0); err != nil || stat.Mtim == h.changed {
		return h.known
	}
	fd, err := unix.Openat(int(h.dir.Fd()), filepath.Base(resolvConf), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return h.known
	}
	file := os.NewFile(uintptr(fd), resolvConf)
	defer file.Close()
	config, err := dns.ClientConfigFromReader(file)
	if err != nil {
		return h.known
	}
	h.known, h.changed = nil, stat.Mtim
	for _, server := range config.Servers {
		if resolver, err := ParseResolver(server); err == nil {
			h.known = append(h.known, resolver)
		}
	}
	return h.known
}

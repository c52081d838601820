package resolver

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// The TTL in answers is at most this, because hostd opens the addresses for a limited time, which is longer.
	usableMax    = 30 * time.Minute
	addressesMax = 64
	// The machine chooses the name and may control the server that answers, so the answer is limited.
	recordsMax = 256
	aliasesMax = 16
)

// prohibited answers NXDOMAIN, because some libraries wait for seconds after REFUSED. EDNS contains the reason.
func prohibited(question *dns.Msg) *dns.Msg {
	answer := failure(question, dns.RcodeNameError)
	if question.IsEdns0() != nil {
		answer.SetEdns0(answerBytesMax, false)
		option := answer.IsEdns0()
		option.Option = append(option.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: "not allowed by the egress policy"})
	}
	return answer
}

// letOut removes addresses of other names and those above the limit from the answer. It returns when the machine may
// connect to all others.
func (s *Server) letOut(ctx context.Context, machine netip.Addr, question, answer *dns.Msg) *dns.Msg {
	addresses, usable := s.keepNamed(question.Question[0].Name, answer)
	if len(addresses) == 0 {
		return answer
	}
	err := s.host.grant(ctx, Grant{Machine: machine, Name: strings.ToLower(question.Question[0].Name), Addresses: addresses, UsableSeconds: uint32(usable / time.Second)})
	if err != nil {
		return failure(question, dns.RcodeServerFailure)
	}
	return answer
}

func (s *Server) keepNamed(name string, answer *dns.Msg) (addresses []netip.Addr, usable time.Duration) {
	answer.Answer = answer.Answer[:min(len(answer.Answer), recordsMax)]
	named := aliasesOf(name, answer.Answer)
	answer.Extra = slices.DeleteFunc(answer.Extra, func(record dns.RR) bool { return len(addressesIn(record)) > 0 })
	answer.Answer = slices.DeleteFunc(answer.Answer, func(record dns.RR) bool {
		found := slices.DeleteFunc(addressesIn(record), func(address netip.Addr) bool { return !address.Unmap().Is4() })
		if len(found) == 0 {
			return false
		}
		if !named[strings.ToLower(record.Header().Name)] || len(addresses)+len(found) > addressesMax {
			return true
		}
		for _, address := range found {
			addresses = append(addresses, address.Unmap())
		}
		header := record.Header()
		header.Ttl = min(header.Ttl, uint32(usableMax/time.Second))
		usable = max(usable, time.Duration(header.Ttl)*time.Second)
		return false
	})
	return addresses, usable
}

func aliasesOf(name string, records []dns.RR) map[string]bool {
	next := map[string]string{}
	for _, record := range records {
		if alias, ok := record.(*dns.CNAME); ok {
			if owner := strings.ToLower(alias.Hdr.Name); next[owner] == "" {
				next[owner] = strings.ToLower(alias.Target)
			}
		}
	}
	at := strings.ToLower(name)
	named := map[string]bool{at: true}
	for range aliasesMax {
		if at = next[at]; at == "" {
			break
		}
		named[at] = true
	}
	return named
}

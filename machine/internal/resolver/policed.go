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
	// usableMax is how long a machine may use an answer under an allowlist. hostd lets it connect for longer.
	usableMax = 30 * time.Minute
	// addressesMax of one answer are told and granted.
	addressesMax = 64
)

// prohibited says that there is no such name: some libraries wait for seconds when they are refused. Who asks for more than the code is told why.
func prohibited(question *dns.Msg) *dns.Msg {
	answer := failure(question, dns.RcodeNameError)
	if question.IsEdns0() != nil {
		answer.SetEdns0(answerBytesMax, false)
		option := answer.IsEdns0()
		option.Option = append(option.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited, ExtraText: "not allowed by the egress policy"})
	}
	return answer
}

// letOut gives the answer to a machine with an allowlist once it may connect to every address in it. Addresses that do not belong to the
// name, and those beyond the bound, are left out.
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

// keepNamed leaves in an answer what says something of the name or of those that it is another word for, bounds how long it may be used, and
// lists its IPv4 addresses.
func (s *Server) keepNamed(name string, answer *dns.Msg) (addresses []netip.Addr, usable time.Duration) {
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

// aliasesOf follows the answer's CNAME records from the name on.
func aliasesOf(name string, records []dns.RR) map[string]bool {
	named := map[string]bool{strings.ToLower(name): true}
	for range records { // each can lead one step further
		for _, record := range records {
			if alias, ok := record.(*dns.CNAME); ok && named[strings.ToLower(alias.Hdr.Name)] {
				named[strings.ToLower(alias.Target)] = true
			}
		}
	}
	return named
}

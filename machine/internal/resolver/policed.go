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
	// recordsMax of an answer to a machine with an allowlist are looked at; the rest is left out. The machine chooses the name, and so may
	// have written the answer.
	recordsMax = 256
	// aliasesMax is how many CNAME records are followed from the name on.
	aliasesMax = 16
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

// aliasesOf follows the answer's CNAME records from the name on. A name has one such record: of several the first counts.
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

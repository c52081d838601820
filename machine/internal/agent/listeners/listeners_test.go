package listeners

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   1: 0100007F:1435 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1 0000000000000000 0 0 0 0 -1
   2: 0100007F:1436 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1 0000000000000000 0 0 0 0 -1
   3: 0200007F:1435 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 7 1 0000000000000000 0 0 0 0 -1
   4: 0300007F:1435 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 7 1 0000000000000000 0 0 0 0 -1
   5: 00000000:1435 00000000:0000 0A
   6: 00000000000000000000000001000000:1435 00000000000000000000000000000000:0000 0A
   7: 0000000000000000FFFF00000100007F:1435 00000000000000000000000000000000:0000 0A
   8: 00000000000000000000000000000000:1435 00000000000000000000000000000000:0000 0A
`

func TestTheAddressesOfAPortAreReadFromATable(t *testing.T) {
	found, err := parse(strings.NewReader(table), 5173)
	want := []string{"127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "127.0.0.1", "::"}
	if err != nil || !slices.EqualFunc(found, want, func(a netip.Addr, b string) bool { return a.String() == b }) {
		t.Fatal(found, err)
	}
}

func TestWhatIsNoSocketIsPassedOver(t *testing.T) {
	for _, bad := range []string{
		"", "1:", "1: 0100007F:1435", "1: 0100007F 0 0A", "1: 0100007F:xxxx 0 0A", "1: 01:1435 0 0A", "1: 0100007F00:1435 0 0A", "1: :1435 0 0A",
		"1: 0100007F:11435 0 0A", "1: 0100007F0100007F:1435 0 0A", "1: zz00007F:1435 0 0A",
	} {
		if found, err := parse(strings.NewReader(bad+"\n"), 5173); err != nil || len(found) > 0 {
			t.Errorf("%q: %v, %v", bad, found, err)
		}
	}
}

func TestALineThatIsTooLongIsAnError(t *testing.T) {
	if _, err := parse(strings.NewReader(strings.Repeat("x", lineBytesMax+1)), 1); err == nil {
		t.Fatal("it was read")
	}
}

func TestAnAnswerIsShortAndAWildcardComesFirst(t *testing.T) {
	var many []netip.Addr
	for last := range 200 {
		address := netip.AddrFrom4([4]byte{127, 0, 0, byte(last)})
		many = append(many, address, address)
	}
	many = append(many, netip.IPv6Unspecified(), netip.IPv4Unspecified())
	texts := short(many)
	if len(texts) != 16 || texts[0] != "0.0.0.0" || texts[1] != "::" || texts[2] != "127.0.0.0" || texts[3] != "127.0.0.1" {
		t.Fatal(texts)
	}
}

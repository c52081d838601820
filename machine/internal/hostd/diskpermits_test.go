package hostd

import (
	"fmt"
	"testing"
	"time"
)

func TestAReaderGivesWayByItsTenantsShareAndItsIdleness(t *testing.T) {
	now := time.Now()
	places := func(tenants int, idle time.Duration) (list []readerPermit) {
		for i := range diskReadersMax {
			used := now.Add(-idle - time.Duration(i)*time.Millisecond) // the last one is unused for longest
			list = append(list, readerPermit{workspace: fmt.Sprint(i), tenant: fmt.Sprint("tenant ", i%tenants), beside: i < besidesMax, used: used})
		}
		return list
	}
	starting := places(diskReadersMax, time.Minute)
	starting[15].starts = true
	for _, one := range []struct {
		what      string
		places    []readerPermit
		newcomer  readerPermit
		workspace string
		full      bool
	}{
		{"there is a place", places(1, 0)[1:], readerPermit{tenant: "new"}, "", false},
		{"one tenant has all, in use", places(1, 0), readerPermit{tenant: "new"}, "15", true},
		{"two tenants have half each, in use: the first asks for more", places(2, 0), readerPermit{tenant: "tenant 0"}, "", true},
		{"two tenants have half each, in use: a third one comes", places(2, 0), readerPermit{tenant: "new"}, "15", true},
		{"each has one, in use", places(diskReadersMax, 0), readerPermit{tenant: "new"}, "", true},
		{"each has one, unused", places(diskReadersMax, time.Minute), readerPermit{tenant: "new"}, "15", true},
		{"the longest unused starts", starting, readerPermit{tenant: "new"}, "14", true},
		{"beside a machine, one of those gives way", places(1, 0), readerPermit{tenant: "new", beside: true}, "7", true},
		{"beside a machine, those are all there may be", places(1, 0)[:besidesMax], readerPermit{tenant: "new", beside: true}, "7", true},
	} {
		if workspace, full := readerToEvict(one.places, one.newcomer, now); workspace != one.workspace || full != one.full {
			t.Errorf("%s: %q, %v", one.what, workspace, full)
		}
	}
}

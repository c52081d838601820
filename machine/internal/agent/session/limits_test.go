package session

import (
	"testing"
)

func TestACommandOfWhichAProcessIsEndedForALimitSaysSoUnlessItSucceeds(t *testing.T) {
	m := open(t, t.TempDir(), 0)
	for _, c := range []struct {
		name, line string
		all        bool
		reason     string
	}{
		{"killed", "read x", false, "out_of_memory"},
		{"child", "sh -c 'read x; exit 137'; exit $?", true, "process_limit"},
		{"fine", "read x; exit 0", true, ""},
	} {
		r := request(c.name, c.line)
		r.StdinOpen = true
		s, _, err := m.Start(r)
		if err != nil {
			t.Fatal(err)
		}
		pid, _ := m.processes.Load(s)
		if c.all {
			m.Ending(0, "process_limit")
		} else {
			m.Ending(pid.(int), "out_of_memory")
		}
		taken(t, s, 0, "", true)
		_, record := printedBy(t, s)
		if got := record.Reason; (got == nil) != (c.reason == "") || got != nil && *got != c.reason {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

package engine

import (
	"fmt"
	"testing"
)

func TestAProcessWithMoreRightsThanItNeedsIsNotConfined(t *testing.T) {
	status := func(seccomp, noNewPrivs int, effective, bounding uint64) string {
		return fmt.Sprintf("Name:\texe\nCapInh:\t0\nCapPrm:\t%016x\nCapEff:\t%016x\nCapBnd:\t%016x\nCapAmb:\t0\nNoNewPrivs:\t%d\nSeccomp:\t%d\n",
			effective, effective, bounding, noNewPrivs, seccomp)
	}
	const sysAdmin = 1 << 21
	for name, c := range map[string]struct {
		status   string
		confined bool
	}{
		"as the engine starts it":    {status(2, 1, 0x8001f, 0x8001f), true},
		"with less":                  {status(2, 1, 0, 0), true},
		"with a capability too many": {status(2, 1, 0x8001f|sysAdmin, 0x8001f|sysAdmin), false},
		"with one to be had":         {status(2, 1, 0x8001f, 0x8001f|sysAdmin), false},
		"without a filter":           {status(0, 1, 0x8001f, 0x8001f), false},
		"free to gain privileges":    {status(2, 0, 0x8001f, 0x8001f), false},
		"with nothing said":          {"Name:\texe\n", false},
	} {
		if err := checkStatus(c.status, capabilitiesMax["runsc-sandbox"]); (err == nil) != c.confined {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := isConfined(1, ^uint64(0)); err == nil {
		t.Error("the host's first process is taken for confined")
	}
}

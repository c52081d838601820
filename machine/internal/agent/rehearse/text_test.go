package rehearse

import (
	"os"
	"strings"
	"testing"
)

func TestOnlyReadOnlyMappingsOfFilesAreTouched(t *testing.T) {
	for line, want := range map[string]bool{
		"00400000-00a12000 r-xp 00000000 00:0b 7    /agent":         true,
		"00a12000-01043000 r--p 00612000 00:0b 7    /agent":         true,
		"01043000-010a5000 rw-p 00c43000 00:0b 7    /agent":         false, // a lock would copy the private pages
		"c000000000-c000400000 rw-p 00000000 00:00 0":               false,
		"7ffff7ff9000-7ffff7ffd000 r--p 00000000 00:00 0    [vvar]": false,
		"no mapping": false,
	} {
		if _, _, ok := programRange(line); ok != want {
			t.Errorf("%q: %v", line, ok)
		}
	}
}

func TestNothingStaysLocked(t *testing.T) {
	Text()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if name, value, _ := strings.Cut(line, ":"); name == "VmLck" && strings.TrimSpace(value) != "0 kB" {
			t.Errorf("locked: %s", value)
		}
	}
}

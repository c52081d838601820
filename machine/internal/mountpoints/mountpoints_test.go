package mountpoints

import (
	"slices"
	"strings"
	"testing"
)

func TestTheEscapesOfATableAreUndone(t *testing.T) {
	table := "15 1 0:12 / / rw - 9p none rw\nshort line\n"
	for _, text := range []string{`/plain`, `/a\040b`, `/a\134b`, `/a\`} {
		table += "16 15 0:13 / " + text + " rw - tmpfs none rw\n"
	}
	points, err := Read(strings.NewReader(table))
	if want := []string{"/", "/plain", "/a b", `/a\b`, `/a\`}; err != nil || !slices.Equal(points, want) {
		t.Fatalf("%q, %v", points, err)
	}
}

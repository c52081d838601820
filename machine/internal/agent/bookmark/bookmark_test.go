package bookmark

import (
	"strings"
	"testing"
)

func TestACursorSaysItsPlaceAgain(t *testing.T) {
	for _, p := range []Position{{}, {"a", 0}, {"a/b\xff:c/é", 17}, {strings.Repeat("x/", 2048), 1 << 30}} {
		cursor := p.Cursor()
		if cursor == nil || strings.Trim(*cursor, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Fatal(p, cursor)
		}
		if got, err := Parse(*cursor); err != nil || got != p {
			t.Fatal(got, err)
		}
	}
	if cursor := (Position{Path: strings.Repeat("x", 6000)}).Cursor(); cursor != nil {
		t.Fatal("a cursor that is too long")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("MDo")
	f.Add("!")
	f.Fuzz(func(t *testing.T, cursor string) {
		if p, err := Parse(cursor); err == nil && (p.Number < 0 || len(p.Steps()) > len(cursor)) {
			t.Fatal(p)
		}
	})
}

func TestAWalkGoesOnAtItsPlace(t *testing.T) {
	for _, c := range []struct {
		steps      []string
		name       string
		passed, on bool
	}{
		{nil, "a", false, false}, {[]string{"b"}, "a", true, false}, {[]string{"b"}, "b", false, true}, {[]string{"b"}, "c", false, false},
	} {
		if passed, on, rest := Next(c.steps, c.name); passed != c.passed || on != c.on || len(rest) != 0 {
			t.Errorf("%+v: %v %v %v", c, passed, on, rest)
		}
	}
}

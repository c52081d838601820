package door

import "testing"

func TestAPlaceHasOneName(t *testing.T) {
	names := NewNames("ports.test")
	const id = "agnlulephz6udhcvaerukz4jvm"
	for host, port := range map[string]int{"1-" + id + ".ports.test": 1, "65535-" + id + ".ports.test": 65_535, "3000-" + id + ".ports.test:8443": 3_000} {
		if place, ok := names.Place(host); !ok || place != (Place{port, id}) {
			t.Errorf("%s: %v %v", host, place, ok)
		}
	}
	for _, host := range []string{
		"", "ports.test", ".ports.test", "-" + id + ".ports.test", "3000.ports.test", "3000-.ports.test", "3000-" + id, "3000-" + id + ".ports.test.",
		"3000-" + id + ".ports.test:", "3000-" + id + ".ports.test:0", "3000-" + id + ".ports.test:1:2", "3000-" + id + "a.ports.test",
		"3000-" + id[1:] + ".ports.test", "3000-" + id[:25] + "1.ports.test", "3000-" + id[:25] + "n.ports.test", "x.3000-" + id + ".ports.test",
		"[::1]:3000", "3000-" + id + ".PORTS.test",
	} {
		if place, ok := names.Place(host); ok {
			t.Errorf("%q is taken for %v", host, place)
		}
	}
}

func TestAPathOfALinkLeadsNowhereElse(t *testing.T) {
	for path, safe := range map[string]string{
		"/": "/", "/a?b=c": "/a?b=c", "//evil": "/", `/\evil`: "/", "https:evil": "/", "": "/", "/a\r\nSet-Cookie: x": "/", "/ä": "/", "/a b": "/",
	} {
		if got := SafePath(path); got != safe {
			t.Errorf("%q becomes %q", path, got)
		}
	}
}

package door

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"testing"
)

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
		"[::1]:3000", "65100-" + id + ".ports.test", "3000-" + id + ".PORTS.test",
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

const contract = "../../../../contract/"

func TestHostIDsAreThoseOfTheContract(t *testing.T) {
	text, err := os.ReadFile(contract + "port-hosts.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Good, Bad []struct {
			HostID string `json:"host_id"`
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors.Good) == 0 || len(vectors.Bad) == 0 {
		t.Fatal(err, vectors)
	}
	names := NewNames("ports.test")
	for _, good := range vectors.Good {
		if place, ok := names.Place("1-" + good.HostID + ".ports.test"); !ok || place.HostID != good.HostID {
			t.Errorf("%q is refused", good.HostID)
		}
	}
	for _, bad := range vectors.Bad {
		if _, ok := names.Place("1-" + bad.HostID + ".ports.test"); ok {
			t.Errorf("%q is taken", bad.HostID)
		}
	}
}

func TestRefusalsAreThoseOfTheContract(t *testing.T) {
	text, err := os.ReadFile(contract + "port-refusals.ts")
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^  (\w+): \{\s*status: (\d+)`).FindAllStringSubmatch(string(text), -1) {
		statuses[line[1]] = line[2]
	}
	for reason, refusal := range refusals {
		if refusal.Reason != reason || statuses[reason] != strconv.Itoa(refusal.Status) {
			t.Errorf("%s is %d here, %s in the contract", reason, refusal.Status, statuses[reason])
		}
	}
}

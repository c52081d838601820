package door

import (
	"encoding/json"
	"os"
	"testing"
)

func TestHostIDsAreThoseThatTheServiceWrites(t *testing.T) {
	text, err := os.ReadFile("../../../../contract/port-hosts.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Good, Bad []struct {
			HostID string `json:"host_id"`
			Why    string `json:"why"`
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	names := NewNames("ports.test")
	for _, good := range vectors.Good {
		if place, ok := names.Place("3000-" + good.HostID + ".ports.test"); !ok || place.HostID != good.HostID || place.Port != 3000 {
			t.Errorf("%s is a name: %v", good.HostID, place)
		}
	}
	for _, bad := range vectors.Bad {
		if place, ok := names.Place("3000-" + bad.HostID + ".ports.test"); ok {
			t.Errorf("%q is no name (%s): %v", bad.HostID, bad.Why, place)
		}
	}
	if len(vectors.Good) == 0 || len(vectors.Bad) == 0 {
		t.Error("there are no vectors")
	}
}

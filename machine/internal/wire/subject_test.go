package wire

import (
	"encoding/json"
	"testing"
)

const id = "0190e1c0-0000-7000-8000-000000000001"

func TestTheNameOfASubjectSaysWhichItIs(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range Kinds {
		subject := Subject{Kind: kind, ID: id}
		owner := subject.Owner()
		if SubjectOf(owner) != subject || seen[owner] {
			t.Errorf("%+v is named %q, which is read as %+v", subject, owner, SubjectOf(owner))
		}
		seen[owner] = true
	}
	if Workspace(id).Owner() != id {
		t.Error("directories of releases that knew only workspaces are not found any more")
	}
}

func TestAFenceTellsItsSubjectAsOneValue(t *testing.T) {
	text, err := json.Marshal(StopRequest{Fence: Fence{Subject: Subject{Kind: KindBuild, ID: id}, OperationID: "o", Step: "s", Epoch: 2, Fence: 3}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"subject":{"kind":"build","id":"` + id + `"},"operation_id":"o","step":"s","epoch":2,"fence":3}`
	if string(text) != want {
		t.Errorf("%s, not %s", text, want)
	}
}

package engine

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func keepWith(t *testing.T, names ...string) *programStore {
	t.Helper()
	k, err := openKeep(t.TempDir(), "program")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		copied, err := k.stage(strings.NewReader("program " + name))
		if err != nil {
			t.Fatal(err)
		}
		if err := copied.become(name, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		copied.discard()
	}
	return k
}

func (k *programStore) expect(t *testing.T, names ...string) {
	t.Helper()
	have, err := k.names()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(have, names) {
		t.Fatalf("kept are %v, not %v", have, names)
	}
}

func TestOnlyWhatNobodyNeedsAndNobodyHasInHandIsCollected(t *testing.T) {
	k := keepWith(t, "current", "held", "named", "unneeded")
	release, ok := k.hold("held")
	if !ok {
		t.Fatal("what is kept is not found")
	}
	if _, ok := k.hold("another"); ok {
		t.Fatal("what is not kept is found")
	}
	needed := map[string]bool{"current": true, "named": true}
	k.beginCollection()
	if removed, err := k.collect(needed); err != nil || !slices.Equal(removed, []string{"unneeded"}) {
		t.Fatalf("removed %v, %v", removed, err)
	}
	k.beginCollection()
	release()
	release() // a second release has no effect
	if _, err := k.collect(needed); err != nil {
		t.Fatal(err)
	}
	k.expect(t, "current", "held", "named") // released after the look began: its user may have been missed by the look
	k.beginCollection()
	if _, err := k.collect(needed); err != nil {
		t.Fatal(err)
	}
	k.expect(t, "current", "named")
}

func TestACopyThatWasCutShortIsNoProgramAndGoes(t *testing.T) {
	k := keepWith(t, "whole")
	if _, err := k.stage(strings.NewReader("half")); err != nil {
		t.Fatal(err)
	}
	k.expect(t, "whole")
	k.beginCollection()
	if removed, err := k.collect(map[string]bool{"whole": true}); err != nil || len(removed) != 1 {
		t.Fatalf("removed %v, %v", removed, err)
	}
	text, err := os.ReadFile(k.path("whole"))
	if err != nil || string(text) != "program whole" {
		t.Fatalf("the kept program is %q, %v", text, err)
	}
}

func TestAVersionThatCannotNameADirectoryIsRefused(t *testing.T) {
	for version, ok := range map[string]bool{"berth-0123456789ab": true, "release-20260901.0": true, "0.0~20240729.0": true, "": false, "..": false, "a/b": false, "a b": false, ".a": false, "a:b": false} {
		if versionPattern.MatchString(version) != ok {
			t.Errorf("%q: %v", version, !ok)
		}
	}
}

func TestASpecificationOfAnOlderVersionHasTheMountsOfThen(t *testing.T) {
	has := func(version int) bool {
		return slices.ContainsFunc(newSpec("/b", version, "", "", Size{}).Mounts, func(m ociMount) bool { return m.Destination == "/layers" })
	}
	if has(1) || !has(2) || !has(SpecVersion) {
		t.Fatal("/layers came with version 2")
	}
}

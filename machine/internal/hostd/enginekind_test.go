package hostd

import (
	"testing"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestAMemoryOfAnotherKindOfEngineIsRefusedAndOneThatNamesNoneIsOfTheFirst(t *testing.T) {
	h := &Host{processor: processor{features: []string{"AVX2"}}}
	m := manifest{Version: manifestVersion, SpecVersion: engine.SpecVersion, EngineKind: "another", Engine: "1.0", Processor: h.processor.features}
	if why, _ := h.refusesMemory(m); why != wire.RefusedEngineNotKept || m.info().EngineKind != "another" {
		t.Errorf("the memory of another kind of engine is refused as %q", why)
	}
	m.EngineKind = ""
	if kind := m.info().EngineKind; kind != wire.EngineGVisor {
		t.Errorf("a manifest that names no kind is of %q", kind)
	}
	if kind := m.withoutMemory().info().EngineKind; kind != "" {
		t.Errorf("a disk alone needs %q", kind)
	}
}

func TestFeaturesAreNamedWhereTheyAreWhyAMemoryIsRefused(t *testing.T) {
	h := &Host{processor: processor{features: []string{"AVX2"}}}
	m := manifest{Processor: []string{"AVX2", "AVX512F"}}
	if missing := h.missingFor(m, wire.RefusedProcessor); len(missing) != 1 || missing[0] != "AVX512F" {
		t.Errorf("missing are %v", missing)
	}
	if missing := h.missingFor(m, wire.RefusedEngineRefused); missing != nil {
		t.Errorf("another reason names %v", missing)
	}
	if missing := h.missingFor(manifest{CPUFeatures: "hash"}, wire.RefusedProcessor); len(missing) != 0 {
		t.Errorf("a hash names %v", missing)
	}
}

package hostd

import (
	"slices"
	"strings"
	"testing"
)

func TestACheckpointNeedsWhatItsProcessorCouldAndNothingElse(t *testing.T) {
	here := processor{features: []string{"AVX", "AVX2", "SSE2", "vendor:A"}, flags: "hash"}
	for name, c := range map[string]struct {
		written manifest
		has     bool
	}{
		"of this processor":                {manifest{Processor: here.features}, true},
		"of one that can do less":          {manifest{Processor: []string{"SSE2", "vendor:A"}}, true},
		"of one that can do more":          {manifest{Processor: []string{"AVX512F", "SSE2", "vendor:A"}}, false},
		"of another vendor":                {manifest{Processor: []string{"SSE2", "vendor:B"}}, false},
		"of an earlier release, same":      {manifest{CPUFeatures: "hash"}, true},
		"of an earlier release, different": {manifest{CPUFeatures: "other"}, false},
		"that says nothing":                {manifest{}, false},
	} {
		if got := here.has(c.written); got != c.has {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := here.lacks([]string{"AVX512F", "SSE2"}); !slices.Equal(got, []string{"AVX512F"}) {
		t.Errorf("lacks %v", got)
	}
}

func TestWhatTheKernelOrMicrocodeBringsIsNoneOfAProgramsFeatures(t *testing.T) {
	here, err := thisProcessor()
	must(t, err)
	if len(here.features) < 5 || !slices.IsSorted(here.features) {
		t.Fatalf("this processor has %v", here.features)
	}
	for _, feature := range here.features {
		for _, part := range []string{"IBPB", "IBRS", "STIBP", "MD_CLEAR", "SRSO", "TSA", "HYPERVISOR", "ERMS"} {
			if strings.Contains(feature, part) {
				t.Errorf("%s counts", feature)
			}
		}
	}
}

package testns

import (
	"os"
	"testing"
)

// In a run of all tests, skipped tests would go unnoticed, so a missing requirement is a failure.
const wholeVariable = "BERTH_TEST_WHOLE"

// Needs skips a test that lacks one of the variables, or root; in a whole run the test fails.
func Needs(t testing.TB, variables ...string) {
	t.Helper()
	why := Missing(variables...)
	switch {
	case why == "":
	case Whole():
		t.Fatal(why)
	default:
		t.Skip(why)
	}
}

// Missing returns the first requirement that is absent, or "".
func Missing(variables ...string) string {
	for _, variable := range variables {
		if os.Getenv(variable) == "" {
			return variable + " is not set: the tests need real machines"
		}
	}
	if os.Getuid() != 0 {
		return "the tests make namespaces, mounts and cgroups: run them as root"
	}
	return ""
}

func Whole() bool { return os.Getenv(wholeVariable) != "" }

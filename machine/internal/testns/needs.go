package testns

import (
	"os"
	"testing"
)

// wholeVariable says that everything is to be tested: what is missing fails then, since nobody reads that a test was left out.
const wholeVariable = "BERTH_TEST_WHOLE"

// Needs ends a test that lacks one of the variables, or root: it is skipped, and in a whole run it fails.
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

// Missing says what the process lacks of the variables and of root; "" when nothing.
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

// Whole says that this is a run of all tests.
func Whole() bool { return os.Getenv(wholeVariable) != "" }

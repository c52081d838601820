package testns

import (
	"os"
	"testing"
)

// In a run of all tests this variable is set, so that a missing requirement fails instead of skipping unnoticed.
const wholeVariable = "BERTH_TEST_WHOLE"

// Needs skips a test whose variables are not set, or fails it in a run of all tests.
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

// Missing returns the reason why a variable's requirement is missing, or "".
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

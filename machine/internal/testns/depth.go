package testns

import "os"

// longVariable selects the long run, as in tests/support/depth.ts.
const longVariable = "BERTH_TEST_LONG"

// Depth returns how often, how many or how much a test does in this run: the long run proves the same facts with more.
func Depth[T any](short, long T) T {
	if os.Getenv(longVariable) == "1" {
		return long
	}
	return short
}

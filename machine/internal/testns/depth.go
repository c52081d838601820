package testns

import "os"

// longVariable names the long run, as in tests/support/depth.ts.
const longVariable = "BERTH_TEST_LONG"

// Depth is how often, how many or how much of something a test does in this run: the long run proves the same facts with more of it.
func Depth[T any](short, long T) T {
	if os.Getenv(longVariable) == "1" {
		return long
	}
	return short
}

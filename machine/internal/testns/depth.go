package testns

import "os"

const longVariable = "BERTH_TEST_LONG"

// Depth: the long run proves the same facts with more. See tests/support/depth.ts.
func Depth[T any](short, long T) T {
	if os.Getenv(longVariable) == "1" {
		return long
	}
	return short
}

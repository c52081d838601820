package testns

import "os"

const longVariable = "BERTH_TEST_LONG"

// Depth chooses the amount of work. The long run tests the same facts with more. See tests/support/depth.ts.
func Depth[T any](short, long T) T {
	if os.Getenv(longVariable) == "1" {
		return long
	}
	return short
}

package testns

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// The file contains a factor: how much slower this computer is than an unloaded one with two processors. The test
// runner rewrites the file; tests/support/patience.ts reads it, too.
const slownessVariable = "BERTH_TEST_SLOWNESS_FILE"

// Slowness returns the factor, which is at least 1.
func Slowness() float64 {
	text, err := os.ReadFile(os.Getenv(slownessVariable))
	if err != nil {
		return 1
	}
	if number, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
		return max(1, number)
	}
	return 1
}

// Patience multiplies a time limit for an unloaded computer by Slowness.
func Patience(quiet time.Duration) time.Duration {
	return time.Duration(float64(quiet) * Slowness())
}

// Patiently returns a function that reports whether time is left. Slow periods use up less of it.
func Patiently(quiet time.Duration) func() bool {
	last, left := time.Now(), quiet
	return func() bool {
		now := time.Now()
		left -= time.Duration(float64(now.Sub(last)) / Slowness())
		last = now
		return left > 0
	}
}

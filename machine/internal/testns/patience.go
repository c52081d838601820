package testns

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// The file's factor tells how much slower this computer is than a quiet one with two processors. The test runner
// rewrites it; tests/support/patience.ts reads it too.
const slownessVariable = "BERTH_TEST_SLOWNESS_FILE"

// Slowness is at least 1.
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

// Patience scales a limit for a quiet computer.
func Patience(quiet time.Duration) time.Duration {
	return time.Duration(float64(quiet) * Slowness())
}

// Patiently counts slow periods less.
func Patiently(quiet time.Duration) func() bool {
	last, left := time.Now(), quiet
	return func() bool {
		now := time.Now()
		left -= time.Duration(float64(now.Sub(last)) / Slowness())
		last = now
		return left > 0
	}
}

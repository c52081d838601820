package testns

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// The file holds a factor: how much slower this computer is than a quiet one with two processors, for which time limits
// are written. The test runner rewrites it; tests/support/patience.ts reads it too.
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

// Patience scales a time limit to this computer's current speed.
func Patience(quiet time.Duration) time.Duration {
	return time.Duration(float64(quiet) * Slowness())
}

// Patiently returns whether time is left; slow periods count less.
func Patiently(quiet time.Duration) func() bool {
	last, left := time.Now(), quiet
	return func() bool {
		now := time.Now()
		left -= time.Duration(float64(now.Sub(last)) / Slowness())
		last = now
		return left > 0
	}
}

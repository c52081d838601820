package testns

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// slownessVariable names a file with how much longer things take here and now than on a quiet computer with two processors, which is what
// bounds of tests are written for. The runner of all tests rewrites it every few seconds; tests/support/patience.ts reads it as well.
const slownessVariable = "BERTH_TEST_SLOWNESS_FILE"

// Slowness is at least 1.
func Slowness() float64 {
	text, err := os.ReadFile(os.Getenv(slownessVariable))
	if err != nil {
		return 1 // no runner says it
	}
	if number, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64); err == nil {
		return max(1, number)
	}
	return 1
}

// Patience is a bound for this computer as it is now.
func Patience(quiet time.Duration) time.Duration {
	return time.Duration(float64(quiet) * Slowness())
}

// Patiently tells whether time is left. Time in which the computer is slow counts as the part of it that a quiet computer takes.
func Patiently(quiet time.Duration) func() bool {
	last, left := time.Now(), quiet
	return func() bool {
		now := time.Now()
		left -= time.Duration(float64(now.Sub(last)) / Slowness())
		last = now
		return left > 0
	}
}

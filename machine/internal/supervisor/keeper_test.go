package supervisor

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAChildThatServedAsLongAsTheLongestPauseIsStartedAgainAfterTheShortest(t *testing.T) {
	t.Parallel()
	config := testConfig(t, shell("child", "exec sleep 1000", 1))
	out, _ := background(t, config)
	eventually(t, "ready", func() bool { return strings.Contains(out.String(), "child is ready") })
	killed := 0
	kill := func() {
		syscall.Kill(pidOf(t, config, "child"), syscall.SIGKILL)
		killed++
		eventually(t, "it serves again", func() bool { return strings.Count(out.String(), "child serves again") == killed })
	}
	pauses := func(text string) int { return strings.Count(out.String(), "started again in "+text) }
	for pauses("0.8 s") == 0 {
		kill()
	}
	since, short := time.Now(), pauses("0.2 s")
	eventually(t, "it serves for so long", func() bool { return time.Since(since) > backoffMax })
	kill()
	if pauses("0.2 s") != short+1 {
		t.Fatal(out.String())
	}
}

func TestPausesGrowUntilAChildServes(t *testing.T) {
	var pauses []time.Duration
	pause := time.Duration(0)
	for _, served := range []time.Duration{0, 0, 0, backoffMax - 1, 0, 0, backoffMax, 0} {
		pause = pauseAfter(pause, served)
		pauses = append(pauses, pause/time.Millisecond)
	}
	if want := []time.Duration{200, 400, 800, 1600, 2000, 2000, 200, 400}; !slices.Equal(pauses, want) {
		t.Fatal(pauses)
	}
}

package hostd

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func nothing() (any, error) { return nil, nil }

func TestADeletedWorkspaceIsForgottenAndItsFenceHoldsForAWeek(t *testing.T) {
	dir := t.TempDir()
	j := newTestJobs(t, dir)
	for i := range 50 {
		_, err := j.run(context.Background(), testCall("w"+itoa(i), 2, "a", nothing))
		must(t, err)
	}
	now := time.Now()
	must(t, j.forgetDeleted(map[string]bool{"w7": true}, now))
	if len(j.workspaces) != 1 || j.workspaces["w7"] == nil {
		t.Errorf("%d workspaces are remembered, of which one is here", len(j.workspaces))
	}
	if _, err := j.run(context.Background(), testCall("w8", 1, "late", nothing)); err == nil {
		t.Error("a deleted workspace is not fenced any more")
	}
	must(t, j.forgetDeleted(map[string]bool{"w7": true}, now.Add(fenceKept+time.Minute)))
	left, err := os.ReadDir(dir)
	must(t, err)
	if len(left) != 1 || left[0].Name() != "w7" {
		t.Errorf("fences after a week: %v", left)
	}
}

func TestAWorkspaceWhoseTurnIsTakenOrWaitedForIsNotForgotten(t *testing.T) {
	dir := t.TempDir()
	j := newTestJobs(t, dir)
	release, err := j.acquire(context.Background(), "w")
	must(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := j.run(context.Background(), testCall("w", 1, "a", nothing))
		waiting <- err
	}()
	for {
		j.mu.Lock()
		queued := j.workspaces["w"].users == 2
		j.mu.Unlock()
		if queued {
			break
		}
		time.Sleep(time.Millisecond)
	}
	must(t, j.forgetDeleted(nil, time.Now().Add(2*fenceKept)))
	if j.fenceOf("w") != 1 {
		t.Error("the turns are forgotten while one is taken and one waited for")
	}
	if _, err := os.Stat(filepath.Join(dir, "w")); err != nil {
		t.Errorf("the fence of a workspace that a verb is about: %v", err)
	}
	release()
	must(t, <-waiting)
	must(t, j.forgetDeleted(nil, time.Now()))
	if len(j.workspaces) != 0 {
		t.Error("the turns are remembered when nobody has one")
	}
}

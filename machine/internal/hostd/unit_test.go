package hostd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func TestADigestFollowsTheContentAndNotHowItIsStored(t *testing.T) {
	dir := t.TempDir()
	sparse, dense, other := dir+"/sparse", dir+"/dense", dir+"/other"
	const size = 40<<20 + 123
	must(t, os.WriteFile(sparse, nil, 0o600))
	must(t, os.Truncate(sparse, size))
	content := make([]byte, size)
	for _, offset := range []int{0, 5000, digestSegment - 1, digestSegment, 30 << 20, size - 1} {
		content[offset] = byte(offset%250 + 1)
		file, err := os.OpenFile(sparse, os.O_WRONLY, 0)
		must(t, err)
		_, err = file.WriteAt(content[offset:offset+1], int64(offset))
		must(t, err)
		must(t, file.Close())
	}
	must(t, os.WriteFile(dense, content, 0o600))
	content[20<<20] = 1
	must(t, os.WriteFile(other, content, 0o600))
	salted, err := saltedDigester([]byte("key"), "salt")
	must(t, err)
	for _, form := range []digester{salted, {}} {
		digest := func(path string) string {
			sum, err := form.of(context.Background(), path)
			must(t, err)
			return sum
		}
		must(t, os.Truncate(sparse, size))
		if digest(sparse) != digest(dense) {
			t.Error("holes change the digest")
		}
		if digest(other) == digest(dense) {
			t.Error("a byte does not change the digest")
		}
		must(t, os.Truncate(sparse, size+1))
		if digest(sparse) == digest(dense) {
			t.Error("a zero at the end does not change the digest")
		}
		must(t, os.WriteFile(dir+"/empty", nil, 0o600))
		if digest(dir+"/empty") == "" {
			t.Error("an empty file has no digest")
		}
	}
}

func TestADigestIsOfTheHostAndItsSalt(t *testing.T) {
	path := t.TempDir() + "/file"
	must(t, os.WriteFile(path, []byte("berth"), 0o600))
	h, other := &Host{key: []byte("one")}, &Host{key: []byte("other")}
	made, err := h.newDigester()
	must(t, err)
	digest, err := made.of(context.Background(), path)
	must(t, err)
	again := func(h *Host, digest string) string {
		found, err := h.digesterOf(digest)
		must(t, err)
		sum, err := found.of(context.Background(), path)
		must(t, err)
		return sum
	}
	if again(h, digest) != digest {
		t.Error("the digest is not found again")
	}
	if again(other, digest) == digest {
		t.Error("another host has the same digest")
	}
	if fresh, err := h.newDigester(); err != nil || fresh.prefix == made.prefix {
		t.Error("two digests have one salt", err)
	}
	segment := sha256.Sum256(append(number(0), "berth"...))
	earlier := sha256.Sum256(append(number(5), segment[:]...))
	if want := hex.EncodeToString(earlier[:]); again(h, want) != want {
		t.Error("a digest without a prefix is not SHA-256 of the blocks themselves")
	}
}

func newTestJobs(t *testing.T, dir string) *jobs {
	t.Helper()
	fences, err := openFences(dir)
	must(t, err)
	j, err := newJobs(fences)
	must(t, err)
	return j
}

func testCall(workspace string, fence int64, step string, do func() (any, error)) call {
	return call{verb: "v", fence: wire.Fence{Subject: wire.Workspace(workspace), Step: step, Fence: fence}, remember: true,
		do: func(context.Context) (any, error) { return do() }}
}

func TestAStepRunsOnceForAllWhoAskForIt(t *testing.T) {
	j := newTestJobs(t, t.TempDir())
	var runs atomic.Int64
	slow := testCall("w", 1, "s", func() (any, error) { time.Sleep(20 * time.Millisecond); return runs.Add(1), nil })
	answers := make(chan any, 8)
	for range 8 {
		go func() { value, _ := j.run(context.Background(), slow); answers <- value }()
	}
	for range 8 {
		if value := <-answers; value != int64(1) {
			t.Fatalf("the answer is %v", value)
		}
	}
	if value, _ := j.run(context.Background(), slow); value != int64(1) {
		t.Fatalf("the remembered answer is %v", value)
	}
	slow.fence.Fence = 2
	if value, _ := j.run(context.Background(), slow); value != int64(2) {
		t.Fatalf("the next attempt's answer is %v", value)
	}
}

func TestALowerFenceIsRefusedAlsoWhileItWaitsAndAfterARestart(t *testing.T) {
	dir := t.TempDir()
	j := newTestJobs(t, dir)
	entered, leave := make(chan struct{}), make(chan struct{})
	go j.run(context.Background(), testCall("w", 1, "a", func() (any, error) { close(entered); <-leave; return nil, nil }))
	<-entered
	waiting := make(chan error, 1)
	go func() {
		_, err := j.run(context.Background(), testCall("w", 1, "b", func() (any, error) { t.Error("a fenced step ran"); return nil, nil }))
		waiting <- err
	}()
	for {
		j.mu.Lock()
		queued := len(j.workspaces["w"].known) == 2
		j.mu.Unlock()
		if queued {
			break
		}
		time.Sleep(time.Millisecond)
	}
	newer := make(chan error, 1)
	go func() {
		_, err := j.run(context.Background(), testCall("w", 2, "c", func() (any, error) { return nil, nil }))
		newer <- err
	}()
	for j.fenceOf("w") != 2 {
		time.Sleep(time.Millisecond)
	}
	close(leave)
	isFenced := func(err error) bool { _, body := hostError(err); return err != nil && body.Code == "fenced" }
	if err := <-waiting; !isFenced(err) {
		t.Fatalf("the waiting step got %v", err)
	}
	must(t, <-newer)
	_, err := newTestJobs(t, dir).run(context.Background(), testCall("w", 1, "d", func() (any, error) { return nil, nil }))
	if !isFenced(err) {
		t.Fatalf("after a restart the old fence got %v", err)
	}
}

func TestAVerbWithoutATurnWaitsForNoOtherAndIsFencedAllTheSame(t *testing.T) {
	j := newTestJobs(t, t.TempDir())
	workspace := newID()
	began, end := make(chan struct{}), make(chan struct{})
	slow := make(chan error, 1)
	go func() {
		_, err := j.run(t.Context(), testCall(workspace, 5, "slow", func() (any, error) { close(began); <-end; return nil, nil }))
		slow <- err
	}()
	<-began
	quick := testCall(workspace, 5, "quick", func() (any, error) { return "done", nil })
	quick.unqueued, quick.remember = true, false
	if value, err := j.run(t.Context(), quick); value != "done" || err != nil {
		t.Errorf("%v, %v", value, err)
	}
	late := testCall(workspace, 4, "late", func() (any, error) { return nil, errors.New("it ran") })
	late.unqueued = true
	var refused *refusal
	if _, err := j.run(t.Context(), late); !errors.As(err, &refused) || refused.code != "fenced" {
		t.Errorf("a lower fence: %v", err)
	}
	close(end)
	must(t, <-slow)
}

func TestTwoVerbsThatNeedTwoWorkspacesDoNotBlockEachOther(t *testing.T) {
	j := newTestJobs(t, t.TempDir())
	done := make(chan error, 40)
	for i := range 20 {
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
			c := testCall(pair[0], 1, itoa(i), func() (any, error) { return nil, nil })
			c.others = map[string]int64{pair[1]: 1}
			go func() { _, err := j.run(context.Background(), c); done <- err }()
		}
	}
	for range 40 {
		select {
		case err := <-done:
			must(t, err)
		case <-time.After(testns.Patience(patient)):
			t.Fatal("two verbs wait for each other")
		}
	}
}

func TestConfigurationsWithMistakesAreRefused(t *testing.T) {
	good := `{"instance":"00ff","data_dir":"/d","run_dir":"/r","socket":"/s","runsc":"/x","agent":"/a","machine_network":"10.1.0.0/20","uplink":"none",
		"pool":{"mount":"/p"},"layers_dir":"/l","slots":{"count":1,"cpu_millis":1000,"memory_mib":512}`
	path := filepath.Join(t.TempDir(), "config.json")
	for text, ok := range map[string]bool{
		good + `}`:                              true,
		good + `,"firewall":"manual"}`:          true,
		good + `,"firewall":"off"}`:             false,
		good + `,"colour":"red"}`:               false,
		good + `,"pool":{"size":1}}`:            false,
		good + `,"instance":"xyz1"}`:            false,
		good + `,"data_dir":"relative"}`:        false,
		good + `,"data_dir":"/a/../b"}`:         false,
		good + `,"shells":{"count":1000}}`:      false,
		good + `,"machine_network":"10.1.0.0"}`: false,
		good + `,"memory_headroom_mib":-1}`:     false,
		good + `,"capacity":{"memory_mib":-1}}`: false,
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := ReadConfig(path); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestArgumentsThatWouldBecomePathsAreChecked(t *testing.T) {
	good := wire.Fence{Subject: wire.Workspace(newID()), OperationID: newID(), Step: "start", Epoch: 1, Fence: 1}
	start := wire.StartRequest{Fence: good, Resources: small, Hostname: "box", Layers: []string{"1e03c2bb95fe0d45a68c0133e059812f2b314f2b9c648970ddd80df5cd05b3d6"}}
	if err := checkStart(start); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*wire.StartRequest){
		"subject":   func(r *wire.StartRequest) { r.ID = "../../etc" },
		"uppercase": func(r *wire.StartRequest) { r.ID = "AAAAAAAA-1111-4111-8111-111111111111" },
		"newline":   func(r *wire.StartRequest) { r.ID += "\n" },
		"kind":      func(r *wire.StartRequest) { r.Kind = "../execution" },
		"no kind":   func(r *wire.StartRequest) { r.Kind = "" },
		"disk":      func(r *wire.StartRequest) { r.FromDisk = "e1.2/.." },
		"layer":     func(r *wire.StartRequest) { r.Layers[0] = "../x" },
		"no layer":  func(r *wire.StartRequest) { r.Layers = nil },
		"hostname":  func(r *wire.StartRequest) { r.Hostname = "a b" },
		"epoch":     func(r *wire.StartRequest) { r.Epoch = 0 },
		"fence":     func(r *wire.StartRequest) { r.Fence.Fence = 0 },
		"step":      func(r *wire.StartRequest) { r.Step = "" },
		"memory":    func(r *wire.StartRequest) { r.Resources.MemoryMiB = 1 },
	} {
		bad := start
		bad.Layers = append([]string(nil), start.Layers...)
		spoil(&bad)
		if checkStart(bad) == nil {
			t.Errorf("a bad %s is taken", name)
		}
	}
}

func TestFailpointsOutsideOfTestsAreRefused(t *testing.T) {
	if _, err := ParseFailpoints("start.disk:kill9,stop.kill:throw"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"start.disk", "nowhere:throw", "start.disk:explode", ""} {
		if _, err := ParseFailpoints(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	var points failpoints
	points.replace(Failpoints{"start.disk": "throw", "stop.kill": "throw"})
	if points.at("start.disk") == nil || points.at("start.disk") != nil {
		t.Error("a failpoint does not fire exactly once")
	}
	if waiting := points.waiting(); len(waiting) != 1 || waiting["stop.kill"] != "throw" {
		t.Errorf("%v wait", waiting)
	}
}

func TestTheIoctlNumberIsTheKernels(t *testing.T) {
	if want := uintptr(2<<30 | subvolumeInfoBytes<<16 | 0x94<<8 | 60); getSubvolumeInfo != want {
		t.Errorf("%x, not %x", getSubvolumeInfo, want)
	}
	if _, err := subvolumeUUID(t.TempDir()); err == nil {
		t.Error("a directory that is no subvolume has a UUID")
	}
}

package hostd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Each reconciler pass lists thousands of suspended workspaces.
func TestAnInventoryOfManyCheckpointsReadsOnlyWhatHasChanged(t *testing.T) {
	const workspaces = 5000
	d := newDaemon(t, nil)
	key, err := os.ReadFile(d.dir + "/data/keys/host.key")
	must(t, err)
	host := &Host{key: key}
	var last string
	var names []string
	for range workspaces {
		workspace, id := newID(), newID()
		dir := d.seenByHostd("pool", "ws", workspace, "checkpoints", id)
		must(t, os.MkdirAll(dir, 0o700))
		must(t, os.Mkdir(d.seenByHostd("pool", "ws", workspace, "disks"), 0o700))
		text, err := json.Marshal(manifest{Version: manifestVersion, Owner: workspace, CheckpointID: id, Epoch: 1, Fence: 7,
			Layers: []string{d.layer}, Resources: small, CreatedAt: stamp(time.Now())})
		must(t, err)
		whole, err := json.Marshal(sealed{Manifest: text, Seal: host.seal(text)})
		must(t, err)
		last = filepath.Join(dir, manifestName)
		must(t, os.WriteFile(last, whole, 0o600))
		names = append(names, d.seenByHostd("pool", "ws", workspace))
	}
	count := func() (found int) {
		for _, files := range d.inventory().Files {
			found += len(files.Checkpoints)
		}
		return found
	}
	look := func(what string, want int) {
		t.Helper()
		began := time.Now()
		if found := count(); found != want {
			t.Fatalf("%s: %d checkpoints are listed, not %d", what, found, want)
		}
		t.Logf("%s of %d checkpoints: %d ms", what, workspaces, time.Since(began).Milliseconds())
	}
	look("the first look", workspaces)
	look("the second look", workspaces)
	whole, err := os.ReadFile(last)
	must(t, err)
	whole[20] ^= 1
	must(t, os.WriteFile(last, whole, 0o600))
	look("a look after one was damaged", workspaces-1)
	whole[20] ^= 1
	must(t, os.WriteFile(last, whole, 0o600))
	look("a look after it was mended", workspaces)
	for _, name := range names {
		must(t, os.RemoveAll(name))
	}
	look("a look after all were removed", 0)
}

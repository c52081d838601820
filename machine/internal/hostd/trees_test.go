package hostd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) applyTree(r wire.TreeApplyRequest, content string) *wire.HostError {
	d.t.Helper()
	var body []byte
	for _, line := range []any{r, wire.TreeEntry{Path: "f", Type: wire.TreeFile, Mode: 0o644, Size: int64(len(content))}, wire.TreeEntry{Type: wire.TreeEnd}} {
		text, err := json.Marshal(line)
		must(d.t, err)
		body = append(append(body, text...), '\n')
		if entry, ok := line.(wire.TreeEntry); ok && entry.Type == wire.TreeFile {
			body = append(body, content...)
		}
	}
	return d.send("POST", "/trees/apply", body, nil)
}

func TestTheOwnerOfAHomeIsNeverThatOfWhatALinkLeadsTo(t *testing.T) {
	real, links := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(real, "home/user"), 0o755))
	must(t, os.Chown(filepath.Join(real, "home/user"), 4242, 4243))
	if owner, ok := ownerIn(real); !ok || owner.UID != 4242 || owner.GID != 4243 {
		t.Errorf("%+v, %v", owner, ok)
	}
	must(t, os.Symlink(filepath.Join(real, "home"), filepath.Join(links, "home")))
	if owner, ok := ownerIn(links); ok {
		t.Errorf("a link was followed to %+v", owner)
	}
	must(t, os.Remove(filepath.Join(links, "home")))
	must(t, os.Mkdir(filepath.Join(links, "home"), 0o755))
	must(t, os.Symlink(filepath.Join(real, "home/user"), filepath.Join(links, "home/user")))
	if owner, ok := ownerIn(links); ok {
		t.Errorf("a link below it was followed to %+v", owner)
	}
}

func treeDigest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func (d *daemon) treeRequest(owner, from, to string) wire.TreeApplyRequest {
	return wire.TreeApplyRequest{Fence: d.fence(owner, 1), From: from, To: treeDigest(to), Layers: []string{d.layer}, DiskGiB: 1}
}

// After an interrupted change no copy is valid, and the next apply makes one.
func (d *daemon) dieInTreeApply(point string) {
	d.t.Helper()
	owner := newID()
	d.ok(d.applyTree(d.treeRequest(owner, "", "before"), "before"))
	d.setFailpoints(Failpoints{point: "kill9"})
	d.restartAfter(point, d.applyTree(d.treeRequest(owner, treeDigest("before"), "after"), "after"))
	for _, tree := range []string{"before", "after"} {
		request := d.startRequest(owner, 1)
		request.Tree = treeDigest(tree)
		d.refused(d.call("POST", "/machines/start", request, nil), "tree_stale")
	}
	d.refused(d.applyTree(d.treeRequest(owner, treeDigest("before"), "after"), "after"), "tree_stale")
	d.ok(d.applyTree(d.treeRequest(owner, "", "after"), "after"))
	request := d.startRequest(owner, 1)
	request.Tree = treeDigest("after")
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", request, &m))
	if text := d.run(m, "cat /home/user/f"); text != "after" {
		d.t.Fatalf("the guest reads %q", text)
	}
	d.ok(d.call("POST", "/subjects/delete", wire.Fenced{Fence: d.fence(owner, 1)}, nil))
}

func TestAStartOnATreeSeesItsFilesAndOnAnotherIsRefusedWithTheOneThatIsKept(t *testing.T) {
	d := withOthers(t)
	owner := newID()
	d.ok(d.applyTree(d.treeRequest(owner, "", "one"), "one"))
	d.ok(d.applyTree(d.treeRequest(owner, treeDigest("one"), "two"), "two"))
	request := d.startRequest(owner, 1)
	request.Tree = treeDigest("one")
	refusal := d.call("POST", "/machines/start", request, nil)
	d.refused(refusal, "tree_stale")
	if refusal.Details["digest"] != treeDigest("two") {
		t.Fatalf("the refusal says %+v", refusal.Details)
	}
	request.Tree = treeDigest("two")
	request.Fence = d.fence(owner, 1)
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", request, &m))
	if text := d.run(m, "cat /home/user/f"); text != "two" {
		t.Fatalf("the guest reads %q", text)
	}
}

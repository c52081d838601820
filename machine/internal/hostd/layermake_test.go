package hostd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) layerRequest(source, id string) wire.LayerRequest {
	fence := d.fence(newID(), 0)
	fence.Kind = wire.KindBuild
	return wire.LayerRequest{Fence: fence, Of: &wire.CheckpointName{Subject: wire.Workspace(source), CheckpointID: id}, BytesMax: 1 << 30, EntriesMax: 1000, Scan: true}
}

func (d *daemon) images(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*.erofs*", "making/*"} {
		found, err := filepath.Glob(filepath.Join(d.dir, "layers", pattern))
		must(t, err)
		names = append(names, found...)
	}
	return names
}

// After a crash the layer is gone or whole, and a retry makes the same layer.
func (d *daemon) dieInLayerMake(point, source, id string) {
	d.t.Helper()
	before := len(d.images(d.t))
	d.setFailpoints(Failpoints{point: "kill9"})
	request := d.layerRequest(source, id)
	d.restartAfter(point, d.call("POST", "/layers/make", request, nil))
	after := d.images(d.t)
	if made := len(after) - before; made != 0 && (made != 1 || point != "layer_make.answer") {
		d.t.Fatalf("%s: hostd left %v", point, after)
	}
	var first, second wire.Layer
	d.ok(d.call("POST", "/layers/make", request, &first))
	d.ok(d.call("POST", "/layers/make", d.layerRequest(source, id), &second))
	if first.Digest != second.Digest || first.SizeBytes != second.SizeBytes || first.Digest == "" || len(first.Findings) > 0 {
		d.t.Fatalf("one disk made two layers: %+v and %+v", first, second)
	}
	image := filepath.Join(d.dir, "layers", first.Digest+".erofs")
	if _, err := os.Stat(image); err != nil {
		d.t.Fatal(err)
	}
	must(d.t, os.Remove(image)) // the next failpoint begins without it
}

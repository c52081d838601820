package hostd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) layersHere() (here wire.LayersHere) {
	d.t.Helper()
	d.ok(d.call("GET", "/layers", nil, &here))
	return here
}

func (d *daemon) has(digest string) bool {
	_, err := os.Stat(filepath.Join(d.dir, "layers", digest+".erofs"))
	return err == nil
}

func (d *daemon) drop(here wire.LayersHere, digests ...string) []string {
	d.t.Helper()
	var answer wire.LayersDropped
	d.ok(d.call("POST", "/layers/drop", wire.LayersDrop{Listing: here.Listing, Layers: digests}, &answer))
	return answer.Dropped
}

func (d *daemon) makeLayerOf(source, id string) string {
	d.t.Helper()
	var made wire.Layer
	d.ok(d.call("POST", "/layers/make", d.layerRequest(source, id), &made))
	return made.Digest
}

// After a crash the layer is whole or gone. A retry drops it, and it can be made again.
func (d *daemon) dieInLayerDrop(point, source, id string) {
	d.t.Helper()
	digest := d.makeLayerOf(source, id)
	d.ok(d.call("POST", "/layers/keep", wire.LayersKept{Layers: []string{digest}}, nil))
	here := d.layersHere()
	d.setFailpoints(Failpoints{point: "kill9"})
	request := wire.LayersDrop{Listing: here.Listing, Layers: []string{digest}}
	d.restartAfter(point, d.call("POST", "/layers/drop", request, nil))
	if d.has(digest) != (point != "layer_drop.answer") {
		d.t.Fatalf("%s: the layer is there: %v", point, d.has(digest))
	}
	if refused := d.call("POST", "/layers/drop", request, nil); refused == nil || refused.Code != "not_found" {
		d.t.Fatalf("a look of the process before was taken: %+v", refused)
	}
	if dropped := d.drop(d.layersHere(), digest); !slices.Equal(dropped, []string{digest}) || d.has(digest) {
		d.t.Fatalf("%s: dropped %v", point, dropped)
	}
	if refused := d.call("POST", "/layers/keep", wire.LayersKept{Layers: []string{digest}}, nil); refused == nil || refused.Code != "layer_missing" {
		d.t.Fatalf("a layer that is gone was kept: %+v", refused)
	}
	if again := d.makeLayerOf(source, id); again != digest {
		d.t.Fatalf("made again it is %s", again)
	}
	d.ok(d.call("POST", "/layers/keep", wire.LayersKept{Layers: []string{digest}}, nil))
	d.drop(d.layersHere(), digest)
}

func TestALayerStaysWhileAMachineOrACheckpointStandsOnIt(t *testing.T) {
	d := newDaemon(t, nil)
	source, id := d.preparedCheckpoint()
	digest := d.makeLayerOf(source, id)
	workspace, checkpoint := newID(), newID()
	m := wire.Machine{}
	d.ok(d.call("POST", "/machines/start", d.on(workspace, digest), &m))
	dropped := func() bool { return len(d.drop(d.layersHere(), digest)) > 0 }
	if dropped() {
		t.Fatal("the layer of a machine was dropped")
	}
	d.checkpoint(m, checkpoint, "paused")
	d.stop(m)
	if dropped() {
		t.Fatal("the layer of a checkpoint was dropped")
	}
	fence := d.fence(workspace, 1)
	d.ok(d.call("POST", "/checkpoints/delete", wire.DeleteRequest{Fence: fence, Names: []string{checkpoint}}, nil))
	if !dropped() || d.has(digest) {
		t.Fatal("a layer that nothing stands on stayed")
	}
	if refused := d.call("POST", "/machines/start", d.on(newID(), digest), nil); refused == nil || refused.Code != "layer_missing" {
		t.Fatalf("a machine on a layer that is gone: %+v", refused)
	}
}

func TestALayerThatSomebodyAskedForSinceTheLookStays(t *testing.T) {
	d := newDaemon(t, nil)
	source, id := d.preparedCheckpoint()
	digest := d.makeLayerOf(source, id)
	here := d.layersHere()
	d.ok(d.call("POST", "/layers/keep", wire.LayersKept{Layers: []string{digest}}, nil))
	if dropped := d.drop(here, digest); len(dropped) > 0 {
		t.Fatal("a layer was dropped by a look from before somebody asked for it")
	}
	var answer wire.LayersDropped
	d.ok(d.call("POST", "/layers/drop", wire.LayersDrop{Listing: d.layersHere().Listing, Layers: []string{digest}, IdleSecondsMin: 3600}, &answer))
	if len(answer.Dropped) > 0 {
		t.Fatal("a layer was dropped that somebody has just asked for")
	}
	if dropped := d.drop(d.layersHere(), digest); len(dropped) != 1 {
		t.Fatal("a layer that nobody asked for since the look stayed")
	}
}

func (d *daemon) on(workspace, digest string) wire.StartRequest {
	request := d.startRequest(workspace, 1)
	request.Layers = append(request.Layers, digest)
	return request
}

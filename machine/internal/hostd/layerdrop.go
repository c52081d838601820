package hostd

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	dropLayersMax   = 100
	dropIdleMax     = int64(365 * 24 * 3600)
	listingsKeptMax = 8
)

// listings records when this process listed its layers. A listing of another process is invalid, because this one does
// not know which layers were used before.
type listings struct {
	mu     sync.Mutex
	of     string // random id of this process
	looks  int
	looked map[string]time.Time
}

func (l *listings) note(at time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked == nil {
		l.of, l.looked = rand.Text(), map[string]time.Time{}
	}
	l.looks++
	delete(l.looked, l.name(l.looks-listingsKeptMax))
	l.looked[l.name(l.looks)] = at
	return l.name(l.looks)
}

func (l *listings) name(look int) string { return l.of + "." + strconv.Itoa(look) }

func (l *listings) find(listing string) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.looked[listing]
	return at, ok
}

func (h *Host) layersHere(context.Context) (wire.LayersHere, error) {
	images, at, err := h.layers.Images()
	here := wire.LayersHere{Listing: h.listings.note(at), Layers: []wire.LayerHere{}}
	for _, image := range images {
		here.Layers = append(here.Layers, wire.LayerHere{Digest: image.Digest, SizeBytes: image.SizeBytes, IdleSeconds: int64(image.Idle.Seconds())})
	}
	return here, err
}

// keepLayers mounts the layers, which marks them as used.
func (h *Host) keepLayers(_ context.Context, r wire.LayersKept) (struct{}, error) {
	_, err := h.mountLayers(r.Layers)
	return struct{}{}, err
}

// neededLayers reads machines before checkpoints. So a machine that is saved and ends in between is found by its
// checkpoint. A machine that starts in between mounts its layers, which marks them as used.
func (h *Host) dropLayers(ctx context.Context, r wire.LayersDrop) (wire.LayersDropped, error) {
	answer := wire.LayersDropped{Dropped: []string{}}
	looked, ok := h.listings.find(r.Listing)
	if !ok {
		return answer, refuse("not_found", "This process has made no such look at its layers")
	}
	needed, err := h.neededLayers()
	if err != nil {
		return answer, err
	}
	for _, digest := range r.Layers {
		if err := ctx.Err(); err != nil {
			return answer, err
		}
		if needed[digest] {
			continue
		}
		idle := time.Duration(r.IdleSecondsMin) * time.Second
		dropped, err := h.layers.Drop(digest, looked, idle, func(step string) error { return h.points.at("layer_drop." + step) })
		if err != nil {
			return answer, because("internal", "A layer could not be removed", err)
		}
		if dropped {
			answer.Dropped = append(answer.Dropped, digest)
		}
	}
	h.stock.forgetLayers(answer.Dropped)
	return answer, h.points.at("layer_drop.answer")
}

// neededLayers lists the layers of machines and checkpoints on this computer. It does not ask the database.
func (h *Host) neededLayers() (map[string]bool, error) {
	needed := map[string]bool{}
	need := func(digests []string) {
		for _, digest := range digests {
			needed[digest] = true
		}
	}
	for _, s := range h.livingMachines() {
		need(s.Record().Claim.Layers)
	}
	return needed, h.eachManifest(func(m manifest) { need(m.Layers) })
}

// eachManifest skips a broken manifest, since its checkpoint cannot be restored. It returns a temporary error, because
// the caller might otherwise remove files that the checkpoint needs.
func (h *Host) eachManifest(do func(manifest)) error {
	workspaces, err := h.pool.ListWorkspaces()
	if err != nil {
		return err
	}
	for _, workspace := range workspaces {
		ids, err := h.pool.ListCheckpoints(workspace)
		if err != nil {
			return err
		}
		for _, id := range ids {
			m, err := h.readManifest(workspace, id)
			if isTemporary(err) {
				return err
			}
			if err == nil {
				do(m)
			}
		}
	}
	return nil
}

func isTemporary(err error) bool {
	return slices.ContainsFunc([]unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT},
		func(errno unix.Errno) bool { return errors.Is(err, errno) })
}

// forgetLayers removes prepared disks on dropped layers, because no machine can start on them.
func (k *warmPool) forgetLayers(digests []string) {
	gone := func(layers []string) bool {
		return slices.ContainsFunc(layers, func(digest string) bool { return slices.Contains(digests, digest) })
	}
	k.mu.Lock()
	k.recent = slices.DeleteFunc(k.recent, gone)
	var useless []*engine.Sandbox
	for _, s := range k.slots {
		if gone(s.Record().Fitted) {
			useless = append(useless, s)
		}
	}
	for _, s := range useless {
		k.slots = without(k.slots, s)
	}
	k.mu.Unlock()
	for _, s := range useless {
		k.remove(s)
	}
	if len(useless) > 0 {
		k.poke()
	}
}

func checkLayersKept(r wire.LayersKept) error { return checkLayers(r.Layers) }

func checkLayersDrop(r wire.LayersDrop) error {
	if len(r.Layers) < 1 || len(r.Layers) > dropLayersMax || r.IdleSecondsMin < 0 || r.IdleSecondsMin > dropIdleMax {
		return refuse("bad_request", "layers are 1 to 100 digests, and idle_seconds_min a time")
	}
	if len(r.Listing) > 64 || strings.ContainsFunc(r.Listing, func(char rune) bool { return char < ' ' }) {
		return refuse("bad_request", "listing is no name")
	}
	for _, digest := range r.Layers {
		if !digestPattern.MatchString(digest) {
			return refuse("bad_request", "a layer is not a SHA-256 in hex")
		}
	}
	return nil
}

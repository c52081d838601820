package server

import (
	"net/http"

	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/search"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// A body of 7 MiB and the gateway's additions must fit.
const patchBodyBytesMax = files.WriteBytesMax + 64<<10

// largeBodies limits concurrent large bodies, because each is in memory twice: as text and decoded.
var largeBodies = make(chan struct{}, 4)

const largeBodyBytes = 256 << 10

func (m *machine) postSearch(w http.ResponseWriter, r *http.Request) error {
	var req wire.SearchRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		result, err := search.Run(root, req, search.Default, r.Context().Done())
		if err != nil {
			return err
		}
		send(w, http.StatusOK, result)
		return nil
	})
}

func (m *machine) postPatch(w http.ResponseWriter, r *http.Request) error {
	key, err := keyOf(r)
	if err != nil {
		return err
	}
	if r.ContentLength < 0 || r.ContentLength > largeBodyBytes {
		largeBodies <- struct{}{}
		defer func() { <-largeBodies }()
	}
	var req wire.PatchRequest
	if err := parseUpTo(w, r, &req, patchBodyBytesMax); err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		var result wire.PatchResult
		if key == "" {
			result, err = files.Patch(root, req, files.PatchOptions{Owner: m.owner()})
		} else {
			result, err = m.patchOnce(r, root, key, req, m.owner())
		}
		if err != nil {
			return err
		}
		send(w, http.StatusOK, result)
		return nil
	})
}

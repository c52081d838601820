package server

import (
	"net/http"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
)

func (m *machine) getTar(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	holes, err := boolean(q.Get("sparse"), false)
	if err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		p, err := files.OpenPack(root, q.Get("path"), holes, r.Context().Done())
		if err != nil {
			return err
		}
		defer p.Close()
		w.Header().Set("Content-Type", "application/x-tar")
		if err := p.Send(w); err != nil {
			panic(http.ErrAbortHandler) // abort the connection, so that the caller sees an incomplete tar
		}
		return nil
	})
}

func (m *machine) putTar(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	parents, err := boolean(q.Get("create_parents"), false)
	if err != nil {
		return err
	}
	linksOut, err := boolean(q.Get("links_out"), false)
	if err != nil {
		return err
	}
	if r.ContentLength > files.TarBytesMax {
		return fail.TooLarge("The tar is too large", files.TarBytesMax)
	}
	return m.withRoot(func(root *guestroot.Root) error {
		o := files.UnpackOptions{CreateParents: parents, LinksOut: linksOut, Owner: m.owner()}
		result, err := files.Unpack(root, q.Get("path"), r.Body, o)
		if err != nil {
			return err
		}
		send(w, http.StatusOK, result)
		return nil
	})
}

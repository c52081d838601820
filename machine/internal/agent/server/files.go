package server

import (
	"io"
	"net/http"
	"strconv"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (m *machine) withRoot(do func(*guestroot.Root) error) error {
	if m.disk != nil {
		return do(m.disk)
	}
	if _, err := m.running(); err != nil {
		return err
	}
	root, err := m.guest.Root()
	if err != nil {
		return err
	}
	defer root.Release()
	return do(root)
}

func (m *machine) getFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	offset, err := wholeNumber(q.Get("offset"), 0)
	if err != nil {
		return err
	}
	length, err := wholeNumber(q.Get("length"), -1)
	if err != nil {
		return err
	}
	revision, err := boolean(q.Get("revision"), false)
	if err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		c, err := files.Read(root, q.Get("path"), offset, length, revision)
		if err != nil {
			return err
		}
		defer c.File.Close()
		sendContent(w, c)
		return nil
	})
}

func sendContent(w http.ResponseWriter, c *files.Content) {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-File-Size", strconv.FormatInt(c.SizeBytes, 10))
	if c.Revision != "" {
		h.Set("X-File-Revision", c.Revision)
	}
	if c.Length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(c.Length, 10))
	}
	if c.Partial {
		w.WriteHeader(http.StatusPartialContent)
	}
	buffer := make([]byte, min(max(c.Length, 4<<10), 256<<10))
	_, _ = io.CopyBuffer(struct{ io.Writer }{w}, c.Reader, buffer)
}

func (m *machine) putFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	appended, err := boolean(q.Get("append"), false)
	if err != nil {
		return err
	}
	parents, err := boolean(q.Get("create_parents"), false)
	if err != nil {
		return err
	}
	if r.ContentLength > files.WriteBytesMax {
		return fail.TooLarge("The body is too large", files.WriteBytesMax)
	}
	key, err := keyOf(r)
	if err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		var result wire.WriteResult
		o := files.WriteOptions{Append: appended, CreateParents: parents, Mode: q.Get("mode"), Owner: m.owner()}
		if key == "" {
			result, err = files.Write(root, q.Get("path"), r.Body, o)
		} else {
			result, err = m.writeOnce(r, root, key, q.Get("path"), o)
		}
		if err != nil {
			return err
		}
		send(w, http.StatusOK, result)
		return nil
	})
}

func (m *machine) deleteFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	recursive, err := boolean(q.Get("recursive"), false)
	if err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		if err := files.Delete(root, q.Get("path"), recursive); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

func (m *machine) getStat(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	revision, err := boolean(q.Get("revision"), false)
	if err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		info, err := files.Stat(root, q.Get("path"), revision)
		if err != nil {
			return err
		}
		send(w, http.StatusOK, info)
		return nil
	})
}

func (m *machine) getList(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := wholeNumber(q.Get("limit"), 0)
	if err != nil {
		return err
	}
	recursive, err := boolean(q.Get("recursive"), false)
	if err != nil {
		return err
	}
	o := files.ListOptions{Limit: int(min(limit, 1<<30)), Cursor: q.Get("cursor"), Recursive: recursive, Gone: r.Context().Done()}
	return m.withRoot(func(root *guestroot.Root) error {
		list, err := files.List(root, q.Get("path"), o)
		if err != nil {
			return err
		}
		send(w, http.StatusOK, list)
		return nil
	})
}

func (m *machine) postMkdir(w http.ResponseWriter, r *http.Request) error {
	var req wire.MkdirRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		info, err := files.Mkdir(root, req, m.owner())
		if err != nil {
			return err
		}
		send(w, http.StatusCreated, info)
		return nil
	})
}

func (m *machine) postMove(w http.ResponseWriter, r *http.Request) error {
	var req wire.MoveRequest
	if err := parse(w, r, &req); err != nil {
		return err
	}
	return m.withRoot(func(root *guestroot.Root) error {
		info, err := files.Move(root, req, r.Context().Done())
		if err != nil {
			return err
		}
		send(w, http.StatusOK, info)
		return nil
	})
}

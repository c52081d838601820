package files

import (
	"archive/tar"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func (u *unpacking) symlink(name string, h *tar.Header) error {
	target := h.Linkname
	if target == "" || len(target) > pathBytesMax || !utf8.ValidString(target) || strings.ContainsRune(target, 0) {
		return refusedEntry(h.Name, "it leads to no path")
	}
	if !u.options.LinksOut && leadsOut(name, target) {
		return refusedEntry(h.Name, "it leads out of the directory")
	}
	at, err := u.parent(name)
	if err != nil {
		return err
	}
	defer at.close()
	if err := removeEarlierEntry(at, name); err != nil {
		return err
	}
	if err := unix.Symlinkat(target, at.dir, at.name); err != nil {
		return err
	}
	if err := unix.Fchownat(at.dir, at.name, u.options.Owner.UID, u.options.Owner.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return setTime(at.dir, at.name, h.ModTime)
}

// leadsOut only compares text, because the agent never follows these links.
func leadsOut(name, target string) bool {
	if strings.HasPrefix(target, "/") {
		return true
	}
	depth := strings.Count(name, "/")
	for _, part := range strings.Split(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

func (u *unpacking) link(name string, h *tar.Header) error {
	source, err := nameOf(h.Linkname)
	if err != nil {
		return err
	}
	dir, base := path.Split(source)
	from, err := u.open(strings.TrimSuffix(dir, "/"))
	if isNotExist(err) {
		return refusedEntry(h.Name, "it is a link to what the tar has not")
	}
	if err != nil {
		return err
	}
	defer unix.Close(from)
	st, err := (&pathTarget{dir: from, name: base}).stat()
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return refusedEntry(h.Name, "it is a link to what is no file of the tar")
	}
	if name == source {
		return nil
	}
	at, err := u.parent(name)
	if err != nil {
		return err
	}
	defer at.close()
	if err := removeEarlierEntry(at, name); err != nil {
		return err
	}
	return unix.Linkat(from, base, at.dir, at.name, 0)
}

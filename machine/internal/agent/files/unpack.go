package files

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const TarBytesMax = wire.TarBytesMax

type UnpackOptions struct {
	CreateParents bool
	LinksOut      bool // allows symbolic links that lead out of the directory
	Owner         Owner
}

// Unpack extracts into a hidden subdirectory, syncs it, and renames the entries. A partial result can remain only if
// the machine dies, or the guest interferes, during the renames.
func Unpack(r *guestroot.Root, target string, body io.Reader, o UnpackOptions) (result wire.TarResult, err error) {
	if err := CheckPath(target); err != nil {
		return result, err
	}
	if o.CreateParents {
		if err := makeParents(r, target, o.Owner); err != nil {
			return result, err
		}
	}
	dir, err := r.Open(target, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return result, Explain(err, target)
	}
	defer unix.Close(dir)
	name, done, err := hiddenIn(dir)
	if err != nil {
		return result, err
	}
	defer done()
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return result, Explain(err, target)
	}
	defer func() {
		if gone := removeTree(dir, name, depthMax); gone != nil && !isNotExist(gone) {
			err = errors.Join(err, gone)
		}
	}()
	below, err := openBelow(dir, name)
	if err != nil {
		return result, Explain(err, target)
	}
	defer unix.Close(below)
	u := &unpacking{below: below, options: o, buffer: make([]byte, 256<<10), result: wire.TarResult{Path: target}}
	if err := u.all(tar.NewReader(&bounded{Reader: body, left: TarBytesMax})); err != nil {
		return result, Explain(err, target)
	}
	if err := unix.Syncfs(below); err != nil {
		return result, Explain(err, target)
	}
	for _, move := range []bool{false, true} {
		if err := mergeInto(below, dir, target, move, depthMax); err != nil {
			return result, err
		}
	}
	u.result.Durable = unix.Syncfs(dir) == nil
	return u.result, nil
}

type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fail.TooLarge("The tar is too large", TarBytesMax)
	}
	if err != nil && err != io.EOF {
		err = bodyError(err)
	}
	return n, err
}

type unpacking struct {
	below   int // the hidden directory
	options UnpackOptions
	buffer  []byte
	result  wire.TarResult
	dirs    []dirMetadata
}

type dirMetadata struct {
	name string
	mode uint32
	time time.Time
}

func (u *unpacking) all(archive *tar.Reader) error {
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return u.applyDirMetadata()
		}
		if err != nil {
			return invalidTar(err)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if u.result.Entries++; u.result.Entries > tarEntriesMax {
			return fail.TooLarge("The tar has too many entries", TarBytesMax).With("max_entries", tarEntriesMax)
		}
		if err := u.entry(archive, header); err != nil {
			return err
		}
	}
}

func invalidTar(err error) error {
	var refusal *fail.Error
	var errno unix.Errno
	if errors.As(err, &refusal) || errors.As(err, &errno) {
		return err
	}
	return fail.Invalid("", "The body is no tar, or ends in the middle of one")
}

func refusedEntry(name, why string) error {
	return fail.Invalid("invalid_path", "An entry of the tar is refused: "+why).With("path", strings.ToValidUTF8(name, "\uFFFD"))
}

func nameOf(name string) (string, error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return "", refusedEntry(name, "its path is absolute")
	case len(name) > pathBytesMax || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return "", refusedEntry(name, "its path is none")
	}
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if part == ".." {
			return "", refusedEntry(name, "its path leads out")
		}
		if len(part) > nameBytesMax || Hidden(part) {
			return "", refusedEntry(name, "its path is none")
		}
	}
	if len(parts) > tarDepthMax {
		return "", refusedEntry(name, "it is too deep")
	}
	clean := path.Clean(name)
	if clean == "." {
		return "", nil
	}
	return clean, nil
}

const nameBytesMax = 255

func (u *unpacking) entry(archive *tar.Reader, h *tar.Header) error {
	name, err := nameOf(h.Name)
	if err != nil {
		return err
	}
	mode := uint32(h.Mode) & 0o7777
	if name == "" {
		if h.Typeflag != tar.TypeDir {
			return refusedEntry(h.Name, "its path names nothing")
		}
		return nil // the existing directory keeps its metadata
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.makeAll(name); err != nil {
			return err
		}
		u.dirs = append(u.dirs, dirMetadata{name, mode, h.ModTime})
		return nil
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(archive, name, h, mode)
	case tar.TypeSymlink:
		return u.symlink(name, h)
	case tar.TypeLink:
		return u.link(name, h)
	}
	return refusedEntry(h.Name, "only files, directories and links are unpacked")
}

// parent opens the directory of name. It creates missing directories and follows no links.
func (u *unpacking) parent(name string) (*pathTarget, error) {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	if dir != "" {
		if err := u.makeAll(dir); err != nil {
			return nil, err
		}
	}
	fd, err := u.open(dir)
	if err != nil {
		return nil, err
	}
	return &pathTarget{dir: fd, name: base}, nil
}

func (u *unpacking) open(dir string) (int, error) {
	if dir == "" {
		dir = "."
	}
	fd, err := openBelow(u.below, dir)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV) {
		return -1, refusedEntry(dir, "its path leads through what is no directory")
	}
	return fd, err
}

func openBelow(dir int, name string) (int, error) {
	return unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
}

func (u *unpacking) makeAll(dir string) error {
	if fd, err := openBelow(u.below, dir); err == nil {
		return unix.Close(fd)
	}
	above, base := path.Split(dir)
	above = strings.TrimSuffix(above, "/")
	if above != "" {
		if err := u.makeAll(above); err != nil {
			return err
		}
	}
	fd, err := u.open(above)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mkdirat(fd, base, 0o755); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return refusedEntry(dir, "its path leads through what is no directory")
		}
		return err
	}
	return unix.Fchownat(fd, base, u.options.Owner.UID, u.options.Owner.GID, unix.AT_SYMLINK_NOFOLLOW)
}

// If a tar has several entries of one name, the last entry wins.
func removeEarlierEntry(at *pathTarget, name string) error {
	err := unix.Unlinkat(at.dir, at.name, 0)
	if err == nil || isNotExist(err) {
		return nil
	}
	if st, known := at.stat(); known == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return refusedEntry(name, "another entry makes a directory of it")
	}
	return err
}

func (u *unpacking) file(archive *tar.Reader, name string, h *tar.Header, mode uint32) error {
	holes := hasHoles(h)
	if h.Size < 0 || (h.Size > TarBytesMax && !holes) {
		return fail.TooLarge("A file of the tar is too large", TarBytesMax)
	}
	if h.Size > sparseBytesMax-u.result.Bytes {
		return fail.TooLarge("The files of the tar are too large with their holes", sparseBytesMax)
	}
	at, err := u.parent(name)
	if err != nil {
		return err
	}
	defer at.close()
	if err := removeEarlierEntry(at, name); err != nil {
		return err
	}
	fd, err := unix.Openat(at.dir, at.name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), at.name)
	defer f.Close()
	var n int64
	if holes {
		n, err = u.copyData(f, archive, h.Size)
	} else {
		n, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{archive}, u.buffer)
	}
	if err != nil {
		return invalidTar(err)
	}
	u.result.Bytes += n
	if err := errors.Join(unix.Fchown(fd, u.options.Owner.UID, u.options.Owner.GID), unix.Fchmod(fd, mode)); err != nil {
		return err
	}
	return setTime(at.dir, at.name, h.ModTime)
}

// applyDirMetadata runs after all entries, because adding an entry changes its directory's time. Children come
// before parents.
func (u *unpacking) applyDirMetadata() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		d := u.dirs[i]
		fd, err := u.open(d.name)
		if err != nil {
			return err
		}
		err = errors.Join(unix.Fchown(fd, u.options.Owner.UID, u.options.Owner.GID), unix.Fchmod(fd, d.mode), setTime(fd, ".", d.time))
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

func setTime(dir int, name string, at time.Time) error {
	spec := unix.NsecToTimespec(at.UnixNano())
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{spec, spec}, unix.AT_SYMLINK_NOFOLLOW)
}

package files

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	tarEntriesMax = wire.TarEntriesMax
	tarDepthMax   = 1024
)

type Pack struct {
	dir     *os.File
	holes   bool
	gone    <-chan struct{}
	out     io.Writer
	entries int
	buffer  []byte
}

// OpenPack opens the directory before the reply begins, so that an error can still be reported. Unless holes is set,
// holes are sent as zeros.
func OpenPack(r *guestroot.Root, path string, holes bool, gone <-chan struct{}) (*Pack, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	fd, err := r.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, Explain(err, path)
	}
	return &Pack{dir: os.NewFile(uintptr(fd), "directory"), holes: holes, gone: gone, buffer: make([]byte, 256<<10)}, nil
}

func (p *Pack) Close() { p.dir.Close() }

// Send writes names sorted by bytes and each hard link as a copy; it omits mounts and other types. After an error
// the tar is incomplete.
func (p *Pack) Send(w io.Writer) error {
	p.out = w
	archive := tar.NewWriter(w)
	if err := p.directory(archive, p.dir, "", 0); err != nil {
		return err
	}
	return archive.Close()
}

func (p *Pack) directory(archive *tar.Writer, dir *os.File, prefix string, depth int) error {
	if depth > tarDepthMax {
		return unix.ENAMETOOLONG
	}
	names, err := dir.Readdirnames(directoryNamesMax)
	if err != nil && err != io.EOF {
		return err
	}
	if len(names) == directoryNamesMax {
		return unix.EMLINK
	}
	sort.Strings(names)
	for _, name := range names {
		if Hidden(name) {
			continue
		}
		if err := p.entry(archive, int(dir.Fd()), name, prefix+name, depth); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}

func (p *Pack) entry(archive *tar.Writer, dir int, name, shown string, depth int) error {
	select {
	case <-p.gone:
		return unix.EPIPE
	default:
	}
	if p.entries++; p.entries > tarEntriesMax {
		return unix.E2BIG
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	header := &tar.Header{
		Format: tar.FormatPAX, Name: shown, Mode: int64(st.Mode & 0o7777), Uid: int(st.Uid), Gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()).Truncate(time.Millisecond),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return p.file(archive, dir, name, header)
	case unix.S_IFLNK:
		var buffer [pathBytesMax]byte
		n, err := unix.Readlinkat(dir, name, buffer[:])
		if err != nil {
			return err
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, string(buffer[:n])
		return archive.WriteHeader(header)
	case unix.S_IFDIR:
		return p.below(archive, dir, name, header, depth)
	}
	return nil
}

func (p *Pack) below(archive *tar.Writer, dir int, name string, header *tar.Header, depth int) error {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, name, how)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil // a mount, or replaced since the stat
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	prefix := header.Name + "/"
	header.Typeflag, header.Name = tar.TypeDir, prefix
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	return p.directory(archive, f, prefix, depth+1)
}

// The header names the file's size at the start. If the file shrinks below that size, the tar fails.
func (p *Pack) file(archive *tar.Writer, dir int, name string, header *tar.Header) error {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // replaced since the stat
	}
	header.Typeflag, header.Size = tar.TypeReg, st.Size
	if p.holes && st.Size >= holesBytesMin {
		if pieces := dataOf(f, st.Size); pieces != nil {
			return errors.Join(p.sparse(archive, f, header, pieces), checkNotShrunk(f, st.Size))
		}
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	return p.send(archive, f, piece{0, st.Size})
}

// Without this check, the lost end of a file that shrank would be sent as a hole.
func checkNotShrunk(f *os.File, size int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Size < size {
		return becameSmaller()
	}
	return nil
}

func becameSmaller() error {
	return fail.Conflict("operation_interrupted", "A file has become smaller while it was read")
}

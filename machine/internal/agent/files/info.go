package files

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	statRevisionBytesMax = 256 << 20
	// Names are sorted in memory, so their number is limited.
	directoryNamesMax = 200000
)

// Stat does not follow a final link.
func Stat(r *guestroot.Root, path string, withRevision bool) (wire.FileInfo, error) {
	if err := CheckPath(path); err != nil {
		return wire.FileInfo{}, err
	}
	fd, err := r.Open(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return wire.FileInfo{}, Explain(err, path)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return wire.FileInfo{}, Explain(err, path)
	}
	info := describe(path, baseOf(path), &st)
	if info.Type == "symlink" {
		info.Target = readLink(fd, "")
	}
	if withRevision && info.Type == "file" && st.Size <= statRevisionBytesMax {
		info.Revision, err = revisionOf(r, path, statRevisionBytesMax)
	}
	return info, err
}

// StatTarget follows links to a regular file.
func StatTarget(r *guestroot.Root, path string) (wire.FileInfo, error) {
	f, st, err := openRegular(r, path)
	if err != nil {
		return wire.FileInfo{}, err
	}
	defer f.Close()
	info := describe(path, baseOf(path), &st)
	info.Revision, err = Digest(f, &st, statRevisionBytesMax)
	return info, err
}

func baseOf(path string) string {
	if _, name := split(path); name != "" {
		return name
	}
	return "/"
}

func describe(path, name string, st *unix.Stat_t) wire.FileInfo {
	return wire.FileInfo{
		Path: path, Name: name, Type: TypeOf(st.Mode), Size: max(st.Size, 0),
		Mode:       Octal(st.Mode),
		ModifiedAt: time.Unix(st.Mtim.Unix()).UTC().Format("2006-01-02T15:04:05.000Z"),
	}
}

func Octal(mode uint32) string { return fmt.Sprintf("%04o", mode&0o7777) }

func TypeOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "file"
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symlink"
	}
	return "other"
}

func readLink(dir int, name string) string {
	var buffer [pathBytesMax]byte
	n, err := unix.Readlinkat(dir, name, buffer[:])
	if err != nil || !utf8.Valid(buffer[:n]) {
		return ""
	}
	return string(buffer[:n])
}

func openRegular(r *guestroot.Root, path string) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	// The path is first opened with O_PATH: opening a device can have side effects, and opening a FIFO makes the agent
	// its reader.
	probe, err := r.Open(path, unix.O_PATH, 0)
	if err != nil {
		return nil, st, Explain(err, path)
	}
	err = unix.Fstat(probe, &st)
	unix.Close(probe)
	if err != nil {
		return nil, st, Explain(err, path)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, st, notAFile(path)
	}
	fd, err := r.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, st, Explain(err, path)
	}
	f := os.NewFile(uintptr(fd), baseOf(path))
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		f.Close()
		return nil, st, notAFile(path)
	}
	return f, st, nil
}

func notAFile(path string) error {
	return fail.Conflict("not_a_file", "The path is not a regular file").With("path", path)
}

func revisionOf(r *guestroot.Root, path string, bytesMax int64) (string, error) {
	f, st, err := openRegular(r, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return Digest(f, &st, bytesMax)
}

// Digest returns the SHA-256 in hexadecimal, or "" for a file larger than bytesMax.
func Digest(f *os.File, st *unix.Stat_t, bytesMax int64) (string, error) {
	if st.Size > bytesMax {
		return "", nil
	}
	if known, ok := remembered.find(st); ok {
		return known, nil
	}
	hash := sha256.New()
	n, err := io.CopyBuffer(hash, io.NewSectionReader(f, 0, bytesMax+1), make([]byte, 256<<10))
	if err != nil || n > bytesMax {
		return "", err
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	var after unix.Stat_t
	if unix.Fstat(int(f.Fd()), &after) == nil {
		remembered.keep(st, &after, sum)
	}
	return sum, nil
}

// entryOf escapes a name that is not UTF-8. No other call can reach the file by the escaped name.
func entryOf(dir int, prefix, name string, st *unix.Stat_t) (wire.FileInfo, bool) {
	if unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return wire.FileInfo{}, false
	}
	shown := EscapeName(name)
	info := describe(prefix+shown, shown, st)
	if info.Type == "symlink" {
		info.Target = readLink(dir, name)
	}
	return info, true
}

// EscapeName escapes bytes that are not UTF-8.
func EscapeName(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	quoted := strconv.QuoteToASCII(name)
	return quoted[1 : len(quoted)-1]
}

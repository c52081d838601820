package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const WriteBytesMax = 7 << 20

// Owner is the owner of each file and directory that a call creates.
type Owner struct{ UID, GID int }

type WriteOptions struct {
	Append        bool
	CreateParents bool
	Mode          string // octal; "" keeps the mode of an existing file, and is 0644 for a new one
	Owner         Owner
	// Announce is called before the change. If Announce returns an error, the file is not changed.
	Announce func(result wire.WriteResult, sizeBefore int64) error
}

// Write stores body whole and durable, or changes nothing. body must return an error if the sender disconnects, or a
// part would be stored.
func Write(r *guestroot.Root, path string, body io.Reader, o WriteOptions) (wire.WriteResult, error) {
	if err := CheckPath(path); err != nil {
		return wire.WriteResult{}, err
	}
	mode, err := parseMode(o.Mode)
	if err != nil {
		return wire.WriteResult{}, err
	}
	if err := asFile(r, path); err != nil {
		return wire.WriteResult{}, err
	}
	if o.CreateParents {
		dir, _ := split(path)
		if err := makeParents(r, dir, o.Owner); err != nil {
			return wire.WriteResult{}, err
		}
	}
	at, err := locateTarget(r, path)
	if err != nil {
		return wire.WriteResult{}, err
	}
	defer at.close()
	w := &writing{at: at, owner: o.Owner, mode: mode, path: path}
	if o.Announce != nil {
		w.announce = func(sizeBefore int64) error { return o.Announce(w.result, sizeBefore) }
	}
	// The target is checked before the body is read, and again under the lock.
	if w.old, err = w.existing(); err != nil {
		return wire.WriteResult{}, err
	}
	if o.Append {
		err = w.append(body)
	} else {
		err = w.replace(body)
	}
	return w.result, Explain(err, path)
}

func asFile(r *guestroot.Root, path string) error {
	if !strings.HasSuffix(path, "/") {
		return nil
	}
	fd, err := r.Open(path, unix.O_PATH, 0)
	switch {
	case err == nil:
		unix.Close(fd)
		return Explain(unix.EISDIR, path)
	case isNotExist(err):
		return fail.Invalid("invalid_path", "A file's path does not end with a slash").With("path", path)
	}
	return Explain(err, path)
}

type writing struct {
	at     *pathTarget
	path   string
	owner  Owner
	mode   int64        // -1: as the existing file, or the default
	old    *unix.Stat_t // nil: a new file
	result wire.WriteResult

	announce func(sizeBefore int64) error // nil: not announced
	locked   bool                         // the caller holds the file's lock
	bytesMax int64                        // 0: WriteBytesMax
}

func (w *writing) existing() (*unix.Stat_t, error) {
	st, err := w.at.stat()
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, Explain(err, w.path)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, notAFile(w.path)
	}
	return &st, nil
}

func (w *writing) replace(body io.Reader) (err error) {
	name, done, err := hiddenIn(w.at.dir)
	if err != nil {
		return err
	}
	defer done()
	fd, err := unix.Openat(w.at.dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Unlinkat(w.at.dir, name, 0))
		}
	}()
	if err := w.copy(f, body); err != nil {
		return err
	}
	if !w.locked {
		release, err := fileLocks.take(w.at)
		if err != nil {
			return err
		}
		defer release()
		if w.old, err = w.existing(); err != nil {
			return err
		}
	}
	if err := w.applyMetadata(fd); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	w.result.Revision = w.result.SHA256
	if err := w.tell(0); err != nil {
		return err
	}
	if err := unix.Renameat(w.at.dir, name, w.at.dir, w.at.name); err != nil {
		return err
	}
	w.result.Durable = unix.Fsync(w.at.dir) == nil
	return nil
}

func (w *writing) tell(sizeBefore int64) error {
	if w.announce == nil {
		return nil
	}
	return w.announce(sizeBefore)
}

func (w *writing) append(body io.Reader) error {
	// The whole body is read first, because appended bytes are visible at once.
	data, err := io.ReadAll(io.LimitReader(body, WriteBytesMax+1))
	if err != nil {
		return bodyError(err)
	}
	if len(data) > WriteBytesMax {
		return fail.TooLarge("The body is too large", WriteBytesMax)
	}
	release, err := fileLocks.take(w.at)
	if err != nil {
		return err
	}
	defer release()
	if w.old, err = w.existing(); err != nil {
		return err
	}
	return w.appendLocked(data)
}

func (w *writing) appendLocked(data []byte) error {
	sum := sha256.Sum256(data)
	w.result = wire.WriteResult{Path: w.path, BytesWritten: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
	size := int64(0)
	if w.old != nil {
		size = w.old.Size
	}
	if err := w.tell(size); err != nil {
		return err
	}
	fd, err := unix.Openat(w.at.dir, w.at.name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), w.at.name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return notAFile(w.path)
	}
	if err := w.appendBytes(f, data); err != nil {
		return errors.Join(err, unix.Ftruncate(fd, st.Size), w.undoCreate())
	}
	return w.finishAppend(f)
}

func (w *writing) undoCreate() error {
	if w.old != nil {
		return nil
	}
	return unix.Unlinkat(w.at.dir, w.at.name, 0)
}

func (w *writing) appendBytes(f *os.File, data []byte) error {
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	_, err := f.Write(data)
	return err
}

func (w *writing) finishAppend(f *os.File) error {
	if w.old == nil || w.mode >= 0 {
		if err := w.applyMetadata(int(f.Fd())); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	w.result.Durable = unix.Fsync(w.at.dir) == nil
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	var err error
	w.result.Revision, err = Digest(f, &st, statRevisionBytesMax)
	return err
}

func (w *writing) copy(f *os.File, body io.Reader) error {
	bytesMax := w.bytesMax
	if bytesMax == 0 {
		bytesMax = WriteBytesMax
	}
	hash := sha256.New()
	// The struct hides os.File's ReadFrom, which would bypass the buffer.
	to := io.MultiWriter(struct{ io.Writer }{f}, hash)
	n, err := io.CopyBuffer(to, struct{ io.Reader }{io.LimitReader(body, bytesMax+1)}, make([]byte, 256<<10))
	if err != nil {
		return bodyError(err)
	}
	if n > bytesMax {
		return fail.TooLarge("The body is too large", bytesMax)
	}
	w.result = wire.WriteResult{Path: w.path, BytesWritten: n, SHA256: hex.EncodeToString(hash.Sum(nil))}
	return nil
}

// bodyError treats every error, except a full or failed disk, as a disconnected sender.
func bodyError(err error) error {
	var errno unix.Errno
	var refusal *fail.Error
	if errors.As(err, &refusal) || errors.As(err, &errno) && (errno == unix.ENOSPC || errno == unix.EDQUOT || errno == unix.EIO) {
		return err
	}
	return fail.BadRequest("body_incomplete", "The body ended early")
}

func (w *writing) applyMetadata(fd int) error {
	uid, gid, mode := w.owner.UID, w.owner.GID, uint32(0o644)
	if w.old != nil {
		uid, gid, mode = int(w.old.Uid), int(w.old.Gid), w.old.Mode&0o7777
	}
	if w.mode >= 0 {
		mode = uint32(w.mode)
	}
	if err := unix.Fchown(fd, uid, gid); err != nil {
		return err
	}
	return unix.Fchmod(fd, mode)
}

func parseMode(text string) (int64, error) {
	if text == "" {
		return -1, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o7777 || len(text) > 5 {
		return -1, fail.Invalid("invalid_mode", "mode is an octal string up to 7777")
	}
	return int64(mode), nil
}

package files

import (
	"bytes"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	// PatchFileBytesMax limits the file before and after the edits.
	PatchFileBytesMax = 16 << 20
	patchEditsMax     = 1000
)

// largePatches limits concurrent patches of large files, because each patch has the file in memory twice.
var largePatches = make(chan struct{}, 2)

const largePatchBytes = 1 << 20

type PatchOptions struct {
	Owner    Owner
	Announce func(wire.PatchResult) error
}

// Patch holds the agent's lock of the file from the read to the replacement.
func Patch(r *guestroot.Root, req wire.PatchRequest, o PatchOptions) (wire.PatchResult, error) {
	if err := checkPatch(req); err != nil {
		return wire.PatchResult{}, err
	}
	if err := asFile(r, req.Path); err != nil {
		return wire.PatchResult{}, err
	}
	at, err := locateTarget(r, req.Path)
	if err != nil {
		return wire.PatchResult{}, err
	}
	defer at.close()
	release, err := fileLocks.take(at)
	if err != nil {
		return wire.PatchResult{}, err
	}
	defer release()
	p := &patching{at: at, req: req, o: o}
	err = p.run()
	if err != nil {
		return wire.PatchResult{}, Explain(err, req.Path)
	}
	p.result.File, err = p.describe()
	return p.result, err
}

func checkPatch(req wire.PatchRequest) error {
	if err := CheckPath(req.Path); err != nil {
		return err
	}
	if (req.Content == nil) == (len(req.Edits) == 0) {
		return fail.Invalid("patch_invalid", "A patch has either edits or content")
	}
	if len(req.Edits) > patchEditsMax {
		return fail.Invalid("patch_invalid", "A patch has 1,000 edits at most")
	}
	for i, e := range req.Edits {
		if e.OldText == "" {
			return fail.Invalid("patch_invalid", "An edit's old_text is not empty").With("index", i)
		}
	}
	return nil
}

type patching struct {
	at     *pathTarget
	req    wire.PatchRequest
	o      PatchOptions
	old    *unix.Stat_t
	result wire.PatchResult
}

func (p *patching) run() error {
	w := &writing{at: p.at, path: p.req.Path, owner: p.o.Owner, mode: -1, locked: true}
	var err error
	if w.old, err = w.existing(); err != nil {
		return err
	}
	p.old = w.old
	release, err := p.acquireMemory()
	if err != nil {
		return err
	}
	defer release()
	next, err := p.next()
	if err != nil {
		return err
	}
	w.announce = func(int64) error {
		p.result.Path, p.result.Revision, p.result.BytesWritten = p.req.Path, w.result.SHA256, w.result.BytesWritten
		if p.o.Announce == nil {
			return nil
		}
		return p.o.Announce(p.result)
	}
	w.bytesMax = PatchFileBytesMax
	if err := w.replace(bytes.NewReader(next)); err != nil {
		return err
	}
	p.result.Durable = w.result.Durable
	return nil
}

func (p *patching) acquireMemory() (func(), error) {
	if p.old == nil || p.req.Content != nil || p.old.Size <= largePatchBytes {
		return func() {}, nil
	}
	if p.old.Size > PatchFileBytesMax {
		return nil, tooLargeToEdit()
	}
	largePatches <- struct{}{}
	return func() { <-largePatches }, nil
}

func tooLargeToEdit() error {
	return fail.TooLarge("The file is too large to edit", PatchFileBytesMax)
}

func (p *patching) next() ([]byte, error) {
	old, err := p.read()
	if err != nil {
		return nil, err
	}
	if want := p.req.ExpectedRevision; want != "" && want != p.result.PreviousRevision {
		return nil, fail.Conflict("revision_mismatch", "The file is at another revision").With("current_revision", p.result.PreviousRevision)
	}
	if p.req.Content != nil {
		return []byte(*p.req.Content), nil
	}
	if p.old == nil {
		return nil, unix.ENOENT
	}
	next, replacements, err := applyEdits(old, p.req.Edits)
	p.result.Replacements = replacements
	return next, err
}

func (p *patching) read() ([]byte, error) {
	if p.old == nil {
		p.result.PreviousRevision = wire.RevisionAbsent
		return nil, nil
	}
	fd, err := unix.Openat(p.at.dir, p.at.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), p.at.name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, notAFile(p.req.Path)
	}
	if p.req.Content == nil {
		return p.readContent(f, st.Size)
	}
	p.result.PreviousRevision, err = Digest(f, &st, statRevisionBytesMax)
	if err == nil && p.result.PreviousRevision == "" && p.req.ExpectedRevision != "" {
		err = fail.TooLarge("The file is too large to have a revision", statRevisionBytesMax)
	}
	return nil, err
}

func (p *patching) readContent(f *os.File, size int64) ([]byte, error) {
	var content bytes.Buffer
	content.Grow(int(min(max(size, 0), PatchFileBytesMax)) + bytes.MinRead)
	if _, err := content.ReadFrom(io.LimitReader(f, PatchFileBytesMax+1)); err != nil {
		return nil, err
	}
	if content.Len() > PatchFileBytesMax {
		return nil, tooLargeToEdit()
	}
	p.result.PreviousRevision = sumOf(content.Bytes())
	return content.Bytes(), nil
}

func (p *patching) describe() (wire.FileInfo, error) {
	st, err := p.at.stat()
	if err != nil {
		return wire.FileInfo{}, Explain(err, p.req.Path)
	}
	info := describe(p.req.Path, baseOf(p.req.Path), &st)
	info.Revision = p.result.Revision
	return info, nil
}

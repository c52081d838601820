package layers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Plan says what a new layer is made of. Nothing writes to the directory meanwhile.
type Plan struct {
	From       *os.File // a directory with what overlayfs left there: whiteouts and opaque directories are the layer's, too
	Dropped    Dropped
	BytesMax   int64
	EntriesMax int
	// Run runs the program that writes the image, and gives it no more memory than this.
	Run func(command *exec.Cmd, memoryBytes int64) error
	// At is asked at each step, by its name.
	At func(step string) error
}

// Made is a layer that is durable under its name.
type Made struct {
	Digest    string
	SizeBytes int64
	Entries   int
}

// Why a directory becomes no layer.
var (
	ErrTooLarge       = errors.New("the files of the layer are larger than allowed")
	ErrTooManyEntries = errors.New("the layer has more entries than allowed")
)

const (
	makingDir = "making"
	// imageOverhead is what an image may have beyond its files' bytes, for each entry and in all.
	imageOverhead      = 4 << 20
	imageOverheadEntry = 512
	statBlockBytes     = 512
)

// The same directory gives the same image: no name, no date and no random number of the making is in it. LZ4 takes a fifth of the time of
// LZ4HC, and somebody waits. The extended attributes are those of overlayfs and of the guest.
var mkfsFlags = []string{"-zlz4", "-C16384", "-T0", "--preserve-mtime", "-U00000000-0000-4000-8000-000000000000", "--quiet"}

// Make writes the image beside its place, and gives it its name when it is whole and durable: killed anywhere it leaves at most what
// SweepMaking removes. Errors: ErrTooLarge, ErrTooManyEntries, ENAMETOOLONG, ENOSPC.
func (s *Store) Make(ctx context.Context, name string, plan Plan) (Made, error) {
	made := Made{}
	size, err := measure(ctx, plan)
	if err != nil {
		return made, err
	}
	made.Entries = size.entries
	release, err := s.hold(size.taken + size.overhead())
	if err != nil {
		return made, err
	}
	defer release()
	if err := plan.At("write"); err != nil {
		return made, err
	}
	image := filepath.Join(s.dir, makingDir, name+".erofs")
	defer os.Remove(image)
	if err := writeImage(ctx, plan, size.entries, image, size.bytes+size.overhead()); err != nil {
		return made, err
	}
	if made.Digest, made.SizeBytes, err = sealImage(image); err != nil {
		return made, err
	}
	if err := plan.At("rename"); err != nil {
		return made, err
	}
	return made, s.place(image, made.Digest)
}

// SweepMaking removes what a process that died has left of layers that it made.
func (s *Store) SweepMaking() error { return os.RemoveAll(filepath.Join(s.dir, makingDir)) }

// measured is what a layer is to hold.
type measured struct {
	bytes   int64 // that its files say to be long
	taken   int64 // without their holes, which take next to nothing in an image
	entries int
}

func (m measured) overhead() int64 { return imageOverhead + int64(m.entries)*imageOverheadEntry }

// measure counts what the layer is to hold, before a byte of it is written. A file that is mostly holes counts with all that it says to be
// long: every one of its bytes is read.
func measure(ctx context.Context, plan Plan) (size measured, err error) {
	links := map[uint64]bool{}
	size.entries = 1 // the root
	err = Walk(plan.From, plan.Dropped, func(found Found) error {
		if size.entries++; size.entries > plan.EntriesMax {
			return ErrTooManyEntries
		}
		stat := &found.Stat
		if stat.Mode&unix.S_IFMT != unix.S_IFREG || links[stat.Ino] {
			return ctx.Err()
		}
		if stat.Nlink > 1 { // a file of several names counts once
			links[stat.Ino] = true
		}
		size.taken += min(stat.Size, stat.Blocks*statBlockBytes)
		if size.bytes += stat.Size; size.bytes > plan.BytesMax {
			return ErrTooLarge
		}
		return ctx.Err()
	})
	return size, err
}

// ProgramMemory is what the program may use that writes an image of so many entries. It was measured to take 4.7 KiB for each, whatever the
// length of its name: the rest is for extended attributes. What needs more is refused.
func ProgramMemory(entries int) int64 { return 256<<20 + int64(entries)*5<<10 }

func writeImage(ctx context.Context, plan Plan, entries int, image string, sizeMax int64) error {
	if err := os.MkdirAll(filepath.Dir(image), 0o700); err != nil {
		return err
	}
	arguments := append([]string{fmt.Sprintf("--fsize=%d", sizeMax), "--core=0", "mkfs.erofs"}, mkfsFlags...)
	for _, expression := range plan.Dropped.expressions {
		arguments = append(arguments, "--exclude-regex="+expression)
	}
	command := exec.CommandContext(ctx, "prlimit", append(arguments, image, "/proc/self/fd/3/")...)
	command.ExtraFiles = []*os.File{plan.From}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := plan.Run(command, ProgramMemory(entries))
	if err == nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return imageError(err, output.String(), image)
}

// imageError finds the reason in the program's words and in how it ended; it has no other form.
func imageError(err error, output, image string) error {
	wrong := fmt.Errorf("writing a layer: %w: %.500s", err, output)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		switch status, _ := exit.Sys().(syscall.WaitStatus); {
		case status.Signaled() && status.Signal() == unix.SIGXFSZ:
			return errors.Join(wrong, ErrTooLarge)
		case status.Signaled() && status.Signal() == unix.SIGKILL: // its memory was at its limit
			return errors.Join(wrong, ErrTooManyEntries)
		}
	}
	var fs unix.Statfs_t
	if strings.Contains(strings.ToLower(output), "no space left") || (unix.Statfs(filepath.Dir(image), &fs) == nil && fs.Bavail == 0) {
		return errors.Join(wrong, unix.ENOSPC)
	}
	if strings.Contains(strings.ToLower(output), "file too large") {
		return errors.Join(wrong, ErrTooLarge)
	}
	return wrong
}

// sealImage makes the bytes durable and says which they are.
func sealImage(image string) (digest string, size int64, err error) {
	file, err := os.OpenFile(image, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", 0, err
	}
	info, err := file.Stat()
	err = errors.Join(err, file.Chmod(0o444), file.Sync(), file.Close())
	if err != nil {
		return "", 0, err
	}
	digest, err = hashFile(image)
	return digest, info.Size(), err
}

// place gives the image its name. One that is there already has the same bytes, or a start would refuse it: it is put right.
func (s *Store) place(image, digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses.note(digest)
	target := filepath.Join(s.dir, digest+".erofs")
	if sum, err := hashFile(target); err != nil || sum != digest {
		if err := os.Rename(image, target); err != nil {
			return err
		}
	}
	// A process that died after its rename may not have come to this.
	return s.syncDir(s.dir)
}

// MakingName is a file name for what a subject makes in one attempt.
func MakingName(owner string, fence int64) string { return owner + "." + strconv.FormatInt(fence, 10) }

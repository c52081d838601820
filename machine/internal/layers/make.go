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

// Plan describes a layer to make. No process may write to its directory during Make.
type Plan struct {
	From       *os.File // directory; overlayfs's whiteouts and opaque marks in it become part of the layer
	Dropped    Dropped
	BytesMax   int64
	EntriesMax int
	Run        func(command *exec.Cmd, memoryBytes int64) error
	At         func(step string) error
}

type Made struct {
	Digest    string
	SizeBytes int64
	Entries   int
}

var (
	ErrTooLarge       = errors.New("the files of the layer are larger than allowed")
	ErrTooManyEntries = errors.New("the layer has more entries than allowed")
)

const (
	makingDir = "making"
	// An image exceeds the files' bytes by at most this much, in total and for each entry.
	imageOverhead      = 4 << 20
	imageOverheadEntry = 512
	statBlockBytes     = 512
)

// The flags exclude name, date and random numbers, so that equal content gives equal images. LZ4 takes a fifth of
// LZ4HC's time, and a caller waits.
var mkfsFlags = []string{"-zlz4", "-C16384", "-T0", "--preserve-mtime", "-U00000000-0000-4000-8000-000000000000", "--quiet"}

// Make writes an image and names it when it is complete and durable. Errors: ErrTooLarge, ErrTooManyEntries,
// ENAMETOOLONG, ENOSPC.
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

// SweepMaking removes unfinished images of an ended process.
func (s *Store) SweepMaking() error { return os.RemoveAll(filepath.Join(s.dir, makingDir)) }

type measured struct {
	bytes   int64 // apparent size of the files, including holes
	taken   int64 // the same without holes, which take almost no space in an image
	entries int
}

func (m measured) overhead() int64 { return imageOverhead + int64(m.entries)*imageOverheadEntry }

// A sparse file's apparent size counts, because mkfs reads every byte.
func measure(ctx context.Context, plan Plan) (size measured, err error) {
	links := map[uint64]bool{}
	size.entries = 1
	err = Walk(plan.From, plan.Dropped, func(found Found) error {
		if size.entries++; size.entries > plan.EntriesMax {
			return ErrTooManyEntries
		}
		stat := &found.Stat
		if stat.Mode&unix.S_IFMT != unix.S_IFREG || links[stat.Ino] {
			return ctx.Err()
		}
		if stat.Nlink > 1 { // the bytes of a file with several names count once
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

// ProgramMemory is the memory limit of mkfs: 4.7 KiB for each entry, and the rest for extended attributes. An image
// that needs more is refused.
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

func imageError(err error, output, image string) error {
	wrong := fmt.Errorf("writing a layer: %w: %.500s", err, output)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		switch status, _ := exit.Sys().(syscall.WaitStatus); {
		case status.Signaled() && status.Signal() == unix.SIGXFSZ:
			return errors.Join(wrong, ErrTooLarge)
		case status.Signaled() && status.Signal() == unix.SIGKILL: // mkfs reached its memory limit
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

// place replaces an existing file with other bytes, because a start would refuse it.
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
	// The file may be from a process that ended between its rename and its sync, so the directory is synced in any
	// case.
	return s.syncDir(s.dir)
}

// MakingName is the name of one attempt's unfinished layer.
func MakingName(owner string, fence int64) string { return owner + "." + strconv.FormatInt(fence, 10) }

package hostd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/secretscan"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// scanBytesMax bounds the work for one layer: what is beyond it is said to be not scanned.
const scanBytesMax = 4 << 30

// scanForSecrets looks at every file that the layer is to hold. The files are read as bytes, and no link is followed.
func scanForSecrets(ctx context.Context, from *os.File, dropped layers.Dropped) (found []wire.LayerFinding, err error) {
	found = []wire.LayerFinding{}
	root := fmt.Sprintf("/proc/self/fd/%d/", from.Fd())
	scanned := int64(0)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		relative := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if relative != "" && dropped.Holds(relative) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		if scanned > scanBytesMax {
			found = append(found, wire.LayerFinding{Path: "/" + relative, Rule: wire.FindingNotScanned, Line: 1})
			return fs.SkipAll
		}
		text, err := readBeginning(from, relative)
		if err != nil {
			return err
		}
		scanned += int64(len(text))
		for _, one := range secretscan.Scan("/"+relative, text) {
			found = append(found, wire.LayerFinding{Path: "/" + strings.ToValidUTF8(relative, "\uFFFD"), Rule: one.Rule, Line: one.Line})
		}
		if len(found) >= wire.LayerFindingsMax {
			found = append(found[:wire.LayerFindingsMax-1], wire.LayerFinding{Path: "/" + strings.ToValidUTF8(relative, "\uFFFD"), Rule: wire.FindingTooMany, Line: 1})
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}

func readBeginning(root *os.File, relative string) ([]byte, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOATIME, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(int(root.Fd()), relative, how)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: relative, Err: err}
	}
	file := os.NewFile(uintptr(fd), relative)
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, secretscan.BytesMax))
}

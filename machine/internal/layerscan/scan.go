package layerscan

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/layers"
	"github.com/berth-dev/berth/machine/internal/secretscan"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const bytesMax = 4 << 30

var errFull = errors.New("the scan ends here")

type scan struct {
	root       *os.File
	entriesMax int
	budget     *budget

	entries int
	bytes   int64
	found   []wire.LayerFinding
	text    []byte
}

func (s *scan) all(dropped layers.Dropped) []wire.LayerFinding {
	s.found, s.text = []wire.LayerFinding{}, make([]byte, secretscan.BytesMax)
	last := ""
	err := layers.Walk(s.root, dropped, func(found layers.Found) error {
		last = found.At
		return s.visit(found)
	})
	slices.SortFunc(s.found, func(a, b wire.LayerFinding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return s.trimmed(last, err)
}

// trimmed limits the number of findings. If err is set, the scan ended early, and a finding at the path `last` reports
// that.
func (s *scan) trimmed(last string, err error) []wire.LayerFinding {
	switch most := wire.LayerFindingsMax; {
	case len(s.found) > most || err != nil && len(s.found) == most:
		return append(s.found[:most-1], finding(last, wire.FindingTooManyFindings, 1))
	case err != nil:
		return append(s.found, finding(last, wire.FindingNotScanned, 1))
	default:
		return s.found
	}
}

func (s *scan) visit(found layers.Found) error {
	if s.entries++; s.entries > s.entriesMax || s.bytes > bytesMax || s.budget.over() || len(s.found) >= wire.LayerFindingsMax {
		return errFull
	}
	if found.Stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	text, err := s.readBeginning(found)
	if err != nil {
		s.found = append(s.found, finding(found.At, wire.FindingNotScanned, 1))
		return nil
	}
	s.bytes += int64(len(text))
	s.budget.beginFile()
	secrets, stopped := secretscan.Scan("/"+found.At, text, s.budget.fileOver)
	for _, one := range secrets {
		s.found = append(s.found, finding(found.At, one.Rule, one.Line))
	}
	if stopped > 0 {
		s.found = append(s.found, finding(found.At, wire.FindingNotScanned, stopped))
	}
	return nil
}

func (s *scan) readBeginning(found layers.Found) ([]byte, error) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(int(found.Dir.Fd()), found.Name, how)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), found.Name)
	defer file.Close()
	read, err := io.ReadFull(file, s.text)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return s.text[:read], err
}

func finding(at, rule string, line int) wire.LayerFinding {
	return wire.LayerFinding{Path: "/" + strings.ToValidUTF8(at, "\uFFFD"), Rule: rule, Line: line}
}

package files

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const FactsMax = 1000

// FactsOf follows no links, and returns nil for a missing path. Consecutive paths in one directory share one open of
// the directory.
func FactsOf(root *guestroot.Root, paths []string) []*wire.Fact {
	facts := make([]*wire.Fact, len(paths))
	opened, dir := "", -1
	closeDir := func() {
		if dir >= 0 {
			unix.Close(dir)
		}
	}
	defer func() { closeDir() }()
	for i, each := range paths {
		if at := path.Dir(each); at != opened {
			closeDir()
			var err error
			if dir, err = root.OpenPlain(at, unix.O_PATH|unix.O_DIRECTORY); err != nil {
				dir = -1
			}
			opened = at
		}
		var st unix.Stat_t
		if dir >= 0 && unix.Fstatat(dir, path.Base(each), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			facts[i] = &wire.Fact{Type: TypeOf(st.Mode), Size: max(st.Size, 0), Mode: Octal(st.Mode)}
		}
	}
	return facts
}

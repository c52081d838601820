package hostd

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/engine"
)

const (
	// A copy is expected to be restored within warmTime. Until then it holds what it was copied from, and so its space.
	warmTime = 20 * time.Second
	// warmMax bounds the descriptors, three for each.
	warmMax = 32
)

// warmImages remembers (decision 275), of an image that was copied just now, the files that it was copied from. A copy shares their blocks, but nothing of
// them is in memory under its name: a restore of it would read from the disk what lies in memory beside. It is known for a while, by the
// directory of the copy.
type warmImages struct {
	mu    sync.Mutex
	known map[string]*warmImage
}

type warmImage struct {
	files []*os.File
	seen  []unix.Stat_t
	timer *time.Timer
}

// keep is about a copy that is whole. What it cannot do makes a restore slower, nothing else.
func (w *warmImages) keep(target, source string) {
	image := &warmImage{}
	for _, name := range engine.ImageFiles {
		file, err := os.OpenFile(filepath.Join(source, name), os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			image.close()
			return
		}
		image.files = append(image.files, file)
		image.seen = append(image.seen, unix.Stat_t{})
		if err := unix.Fstat(int(file.Fd()), &image.seen[len(image.seen)-1]); err != nil {
			image.close()
			return
		}
	}
	w.drop(target)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.known) >= warmMax {
		image.close()
		return
	}
	if w.known == nil {
		w.known = map[string]*warmImage{}
	}
	image.timer = time.AfterFunc(warmTime, func() { w.drop(target) })
	w.known[target] = image
}

// take hands the files to the one who restores the copy, and who closes them. It is nil where there are none, or where somebody has written
// to one since.
func (w *warmImages) take(target string) []*os.File {
	image := w.remove(target)
	if image == nil {
		return nil
	}
	for i, file := range image.files {
		var st unix.Stat_t
		// Not the time of the last change: it is another when the original has lost its name.
		if err := unix.Fstat(int(file.Fd()), &st); err != nil || st.Size != image.seen[i].Size || st.Mtim != image.seen[i].Mtim {
			image.close()
			return nil
		}
	}
	return image.files
}

func (w *warmImages) drop(target string) {
	if image := w.remove(target); image != nil {
		image.close()
	}
}

func (w *warmImages) remove(target string) *warmImage {
	w.mu.Lock()
	defer w.mu.Unlock()
	image := w.known[target]
	if image == nil {
		return nil
	}
	delete(w.known, target)
	image.timer.Stop()
	return image
}

func (i *warmImage) close() {
	for _, file := range i.files {
		file.Close()
	}
}

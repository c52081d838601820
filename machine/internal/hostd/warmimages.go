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
	// The restore of a clone is expected within this time. Until then, open files of a deleted source occupy disk
	// space.
	warmTime = 20 * time.Second
	// Each image has three open files, so this bounds the descriptors.
	warmMax = 32
)

// warmImages holds the source's files open, because a copy shares the source's blocks but not its page cache (decision
// 275). Keys are the copies' directories.
type warmImages struct {
	mu    sync.Mutex
	known map[string]*warmImage
}

type warmImage struct {
	files []*os.File
	seen  []unix.Stat_t
	timer *time.Timer
}

// keep ignores failures, because they only make a restore slower.
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

// take returns the files, which the caller must close. It returns nil if there are none, or if one was written to.
func (w *warmImages) take(target string) []*os.File {
	image := w.remove(target)
	if image == nil {
		return nil
	}
	for i, file := range image.files {
		var st unix.Stat_t
		// The ctime is not compared, because it also changes when the source is deleted.
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

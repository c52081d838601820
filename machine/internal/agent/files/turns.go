package files

import (
	"sync"

	"golang.org/x/sys/unix"
)

// turns puts changes of one file in a row: what a patch read is still there when it renames. Processes of the guest take no
// part in it.
var turns = fileTurns{of: map[fileName]*turn{}}

// fileName is where a name lies, whichever path led there.
type fileName struct {
	dev, ino uint64 // of the directory
	name     string
}

type fileTurns struct {
	mu sync.Mutex
	of map[fileName]*turn
}

type turn struct {
	mu    sync.Mutex
	users int
}

// take waits for the turn of the file at a place.
func (t *fileTurns) take(at *place) (release func(), err error) {
	var st unix.Stat_t
	if err := unix.Fstat(at.dir, &st); err != nil {
		return nil, err
	}
	key := fileName{dev: uint64(st.Dev), ino: st.Ino, name: at.name}
	t.mu.Lock()
	mine := t.of[key]
	if mine == nil {
		mine = &turn{}
		t.of[key] = mine
	}
	mine.users++
	t.mu.Unlock()
	mine.mu.Lock()
	return func() {
		mine.mu.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.of, key)
		}
	}, nil
}

package files

import (
	"sync"

	"golang.org/x/sys/unix"
)

// fileLocks serializes the agent's writes of a file, because a patch must replace the content that it read. Guest
// processes do not use these locks.
var fileLocks = lockTable{of: map[fileName]*fileLock{}}

type fileName struct {
	dev, ino uint64 // of the directory
	name     string
}

type lockTable struct {
	mu sync.Mutex
	of map[fileName]*fileLock
}

type fileLock struct {
	mu    sync.Mutex
	users int
}

func (t *lockTable) take(at *pathTarget) (release func(), err error) {
	var st unix.Stat_t
	if err := unix.Fstat(at.dir, &st); err != nil {
		return nil, err
	}
	key := fileName{dev: uint64(st.Dev), ino: st.Ino, name: at.name}
	t.mu.Lock()
	mine := t.of[key]
	if mine == nil {
		mine = &fileLock{}
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

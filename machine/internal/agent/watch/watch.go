package watch

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/files"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	directoriesMax = 4096 // per watch
	namesMax       = 100_000
	// The pause between reads. The kernel merges repeated events of one file meanwhile.
	gather = 20 * time.Millisecond

	wanted = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
	directoryFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK
)

// Rooted opens the guest's root on demand: a watch keeps nothing open in the tree.
type Rooted func() (*guestroot.Root, error)

type watch struct {
	id, path  string
	recursive bool
	rooted    Rooted
	events    events
	kernel    *os.File // inotify

	directories map[int32]string // paths by watch descriptor; this and the following fields belong to run
	// found has names that were reported from a listing, because the kernel may report their creation again. When the
	// queue is empty, found becomes earlier, and the previous earlier is dropped.
	found, earlier map[string]bool
	tooMany        bool

	readers int         // guarded by the manager's mu
	idle    *time.Timer // guarded by the manager's mu
}

func begin(rooted Rooted, id, path string, recursive bool) (*watch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	w := &watch{id: id, path: strings.TrimRight(path, "/"), recursive: recursive, rooted: rooted, kernel: os.NewFile(uintptr(fd), "inotify"),
		directories: map[int32]string{}, found: map[string]bool{}, earlier: map[string]bool{}}
	began := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and has its own working directory
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = w.enter("", false)
		}
		began <- err
		if err == nil {
			w.run()
		}
	}()
	if err := <-began; err != nil {
		w.kernel.Close()
		return nil, err
	}
	return w, nil
}

func (w *watch) close() { w.kernel.Close() }

func (w *watch) run() {
	defer w.kernel.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := w.kernel.Read(buffer)
		if err != nil {
			return
		}
		if !w.take(buffer[:n]) {
			return
		}
		if n < len(buffer)-unix.SizeofInotifyEvent-unix.NAME_MAX-1 { // the kernel's queue is empty
			w.earlier, w.found = w.found, map[string]bool{}
		}
		time.Sleep(gather)
	}
}

func (w *watch) take(said []byte) bool {
	for len(said) >= unix.SizeofInotifyEvent {
		descriptor := int32(binary.NativeEndian.Uint32(said))
		mask := binary.NativeEndian.Uint32(said[4:])
		length := int(binary.NativeEndian.Uint32(said[12:]))
		if length > len(said)-unix.SizeofInotifyEvent {
			return true
		}
		name, _, _ := strings.Cut(string(said[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+length]), "\x00")
		said = said[unix.SizeofInotifyEvent+length:]
		if !w.one(descriptor, mask, name) {
			return false
		}
	}
	return true
}

func (w *watch) one(descriptor int32, mask uint32, name string) bool {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.handleOverflow()
		return true
	}
	directory, known := w.directories[descriptor]
	if !known {
		return true
	}
	if directory == "" && mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_UNMOUNT|unix.IN_IGNORED) != 0 {
		why := wire.WatchDeleted
		if mask&unix.IN_MOVE_SELF != 0 {
			why = wire.WatchMoved
		}
		w.events.add(wire.WatchEvent{Type: wire.WatchEnd, Why: why})
		return false
	}
	if mask&unix.IN_IGNORED != 0 {
		delete(w.directories, descriptor)
	}
	if name == "" || files.Hidden(name) {
		return true
	}
	w.changed(directory+"/"+name, changeOf(mask), mask&unix.IN_ISDIR != 0)
	return true
}

func changeOf(mask uint32) string {
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		return wire.WatchAdded
	case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
		return wire.WatchDeleted
	case mask&unix.IN_MODIFY != 0:
		return wire.WatchModified
	}
	return wire.WatchMetadata
}

func (w *watch) changed(below, change string, isDirectory bool) {
	told := w.found[below] || w.earlier[below]
	delete(w.found, below)
	delete(w.earlier, below)
	if told && change == wire.WatchAdded {
		return
	}
	w.tell(below, change, isDirectory)
	if !w.recursive || !isDirectory {
		return
	}
	switch change {
	case wire.WatchAdded:
		if err := w.enter(below, true); err != nil && !isGone(err) {
			w.unwatched()
		}
	case wire.WatchDeleted:
		w.leave(below) // otherwise the kernel would continue to watch a directory that was moved away
	}
}

func (w *watch) tell(below, change string, isDirectory bool) {
	parts := strings.Split(below, "/")
	for i, part := range parts {
		parts[i] = files.EscapeName(part)
	}
	w.events.add(wire.WatchEvent{Type: wire.WatchChange, Path: w.path + strings.Join(parts, "/"), Change: change, IsDirectory: &isDirectory})
}

// handleOverflow walks the tree again, because events of new directories may be lost.
func (w *watch) handleOverflow() {
	w.events.add(wire.WatchEvent{Type: wire.WatchOverflow, Why: wire.WatchEvents})
	if w.recursive {
		_ = w.enter("", false)
	}
}

func (w *watch) enter(below string, tell bool) error {
	root, err := w.rooted()
	if err != nil {
		return err
	}
	defer root.Release()
	flags := directoryFlags
	if below != "" {
		flags |= unix.O_NOFOLLOW
	}
	path := w.path + below
	if path == "" {
		path = "/"
	}
	fd, err := root.Open(path, flags, 0)
	if err != nil {
		return files.Explain(err, path)
	}
	defer unix.Close(fd)
	return w.watch(fd, below, tell)
}

// watch lets the kernel watch the directory before it lists the directory, so that no change is missed.
func (w *watch) watch(fd int, below string, tell bool) error {
	if len(w.directories) >= directoriesMax {
		w.unwatched()
		return nil
	}
	descriptor, err := w.add(fd)
	if err != nil {
		return err
	}
	w.directories[int32(descriptor)] = below
	if !w.recursive {
		return nil
	}
	for _, name := range namesOf(fd) {
		if files.Hidden(name) {
			continue
		}
		child := below + "/" + name
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		isDirectory := st.Mode&unix.S_IFMT == unix.S_IFDIR
		if tell {
			w.found[child] = true
			w.tell(child, wire.WatchAdded, isDirectory)
		}
		if isDirectory {
			w.into(fd, name, child, tell)
		}
	}
	return nil
}

// add watches the working directory ".", because the directory may have no name. The working directory then changes
// back, because a deleted directory must not be kept open.
func (w *watch) add(fd int) (descriptor int, err error) {
	if err := unix.Fchdir(fd); err != nil {
		return 0, err
	}
	err = w.control(func(kernel int) (err error) {
		descriptor, err = unix.InotifyAddWatch(kernel, ".", wanted)
		return err
	})
	return descriptor, errors.Join(err, unix.Chdir("/"))
}

func (w *watch) unwatched() {
	if !w.tooMany {
		w.events.add(wire.WatchEvent{Type: wire.WatchOverflow, Why: wire.WatchDirectories})
	}
	w.tooMany = true
}

func (w *watch) into(parent int, name, below string, tell bool) {
	how := &unix.OpenHow{Flags: directoryFlags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(parent, name, how)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if w.watch(fd, below, tell) != nil {
		w.unwatched()
	}
}

func isGone(err error) bool {
	var refused *fail.Error
	return errors.As(err, &refused)
}

func namesOf(fd int) []string {
	again, err := unix.Openat(fd, ".", directoryFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(again), "directory")
	defer dir.Close()
	names, _ := dir.Readdirnames(namesMax)
	return names
}

func (w *watch) leave(below string) {
	for descriptor, directory := range w.directories {
		if directory != below && !strings.HasPrefix(directory, below+"/") {
			continue
		}
		// The error is ignored: deleting a directory removes its watch.
		_ = w.control(func(kernel int) error {
			_, err := unix.InotifyRmWatch(kernel, uint32(descriptor))
			return err
		})
		delete(w.directories, descriptor)
	}
}

func (w *watch) control(ask func(kernel int) error) error {
	raw, err := w.kernel.SyscallConn()
	if err != nil {
		return err
	}
	var answer error
	if err := raw.Control(func(fd uintptr) { answer = ask(int(fd)) }); err != nil {
		return err
	}
	return answer
}

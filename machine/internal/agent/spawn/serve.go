package spawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/rehearse"
)

const (
	devNullFD = 0
	// The spawner's own socket. The sockets of the workers follow.
	firstSocketFD = 3
)

// ServeSpawner is the spawner process. args are the number of workers and the Layout as JSON. It returns after the
// warm-up.
func ServeSpawner(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("spawner: %d arguments", len(args))
	}
	var layout Layout
	workers, err := strconv.Atoi(args[0])
	if err = errors.Join(err, json.Unmarshal([]byte(args[1]), &layout)); err != nil || workers < 1 {
		return fmt.Errorf("spawner: arguments: %w", err)
	}
	// No garbage is collected: the heap has only a few hundred KiB, and each worker has a copy.
	debug.SetGCPercent(-1)
	unix.Umask(0o022) // the umask of every command
	for i := range workers + 1 {
		unix.CloseOnExec(firstSocketFD + i)
	}
	sleeper, err := sleeperFD()
	if err != nil {
		return err
	}
	if err := hide(sleeper); err != nil {
		return err
	}
	adopting, err := adoptProgram(layout, sleeper)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := expect(firstSocketFD, messagePrepare); err != nil {
		return err
	}
	if err := forkWorkers(workers, sleeper, inWords(adopting)); err != nil {
		return err
	}
	warmUpIfIdle(firstSocketFD, sleeper)
	return nil
}

func expect(socket int, word byte) error {
	var message [2]byte
	if n, err := readMessage(socket, message[:]); err != nil || n != 1 || message[0] != word {
		return fmt.Errorf("spawner: expected message %d: %w", word, err)
	}
	return nil
}

func runHere(program []byte) reply {
	f := &fork{}
	memory := inWords(program)
	runtimeBeforeFork()
	r := f.start(uintptr(unsafe.Pointer(&memory[0])))
	runtimeAfterFork()
	runtime.KeepAlive(memory)
	return r
}

func inWords(program []byte) []uint64 {
	memory := make([]uint64, (len(program)+7)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), len(program)), program)
	return memory
}

func forkWorkers(count, sleeper int, adopting []uint64) error {
	sockets := make([]int, count+1)
	for i := range sockets {
		sockets[i] = firstSocketFD + i
	}
	workers := make([]*worker, count)
	text := rehearse.Ranges()
	for i := range workers {
		others := append(append([]int(nil), sockets[:i+1]...), sockets[i+2:]...)
		if i > 0 {
			others = append(others, sleeper)
		}
		workers[i] = newWorker(i, sockets[i+1], others)
		workers[i].text = text
	}
	workers[0].adopt, workers[0].sleeper = uintptr(unsafe.Pointer(&adopting[0])), uintptr(sleeper)
	for _, w := range workers {
		if err := w.launch(); err != nil {
			return err
		}
	}
	for _, fd := range sockets[1:] {
		unix.Close(fd)
	}
	runtime.KeepAlive(adopting)
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

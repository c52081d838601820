package spawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// firstSocketFD is where the agent puts the spawner's sockets: its own, then one for each worker.
const firstSocketFD = 3

// ServeSpawner is the whole life of the spawner process: fork the workers, adopt the claim once, and wait until the agent goes.
// Its arguments are the number of its workers and the Layout as JSON.
func ServeSpawner(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("spawner: %d arguments", len(args))
	}
	var layout Layout
	workers, err := strconv.Atoi(args[0])
	if err = errors.Join(err, json.Unmarshal([]byte(args[1]), &layout)); err != nil || workers < 1 {
		return fmt.Errorf("spawner: arguments: %w", err)
	}
	// The heap is a few hundred KiB, and a copy of it waits in each worker: never collect.
	debug.SetGCPercent(-1)
	// Commands may look at this process only between fork and execve, and not into its memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	for i := range workers + 1 {
		unix.CloseOnExec(firstSocketFD + i)
	}
	devNull, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/null: %w", err)
	}
	runtime.LockOSThread()
	if err := expect(firstSocketFD, messagePrepare); err != nil {
		return err
	}
	if err := forkWorkers(workers, devNull); err != nil {
		return err
	}
	if err := serveAdopt(firstSocketFD, devNull, layout); err != nil {
		return err
	}
	var nothing [1]byte
	_, err = readMessage(firstSocketFD, nothing[:])
	if errors.Is(err, io.EOF) {
		return nil // the agent has let go
	}
	return err
}

// serveAdopt prepares all it can, waits for the claim, and answers with the pid of the guest's init.
func serveAdopt(socket, devNull int, layout Layout) error {
	program, err := sleeperFD()
	if err != nil {
		return err
	}
	defer unix.Close(program)
	adopting, err := adoptProgram(layout, devNull, program)
	if err != nil {
		return err
	}
	awaitWork(socket, devNull, program)
	if err := expect(socket, messageAdopt); err != nil {
		return err
	}
	answer := runHere(adopting, devNull)
	if err := sendReply(socket, answer); err != nil {
		return err
	}
	if answer.stage != StageSpawned {
		return fmt.Errorf("spawner: adopting failed at step %d: %w", answer.stage, syscall.Errno(answer.errno))
	}
	return nil
}

func expect(socket int, word byte) error {
	var message [2]byte
	if n, err := readMessage(socket, message[:]); err != nil || n != 1 || message[0] != word {
		return fmt.Errorf("spawner: expected message %d: %w", word, err)
	}
	return nil
}

// runHere runs a program as a child of this process. vfork returns once the child has executed a program or died.
func runHere(program []byte, devNull int) reply {
	f := &fork{devNull: int32(devNull)}
	memory := make([]uint64, (len(program)+7)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&memory[0])), len(program)), program)
	runtimeBeforeFork()
	r := f.start(uintptr(unsafe.Pointer(&memory[0])))
	runtimeAfterFork()
	runtime.KeepAlive(memory)
	return r
}

// forkWorkers leaves them waiting for the guest: a claim does not wait for a fork.
func forkWorkers(count, devNull int) error {
	sockets := make([]int, count+1)
	for i := range sockets {
		sockets[i] = firstSocketFD + i
	}
	workers := make([]*worker, count)
	for i := range workers {
		others := append(append([]int(nil), sockets[:i+1]...), sockets[i+2:]...)
		workers[i] = newWorker(sockets[i+1], devNull, others)
	}
	for _, w := range workers {
		if err := w.launch(); err != nil {
			return err
		}
	}
	for _, fd := range sockets[1:] {
		unix.Close(fd)
	}
	return nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

type Watched struct {
	Processes int `json:"processes"` // new processes seen
	Opened    int `json:"opened"`    // files that could be opened
	// Refused counts refusals to root while a process is being started. 0 means that the watch began too late.
	Refused int `json:"refused"`
	// Escapes lists opened files and memory that are not the guest's own.
	Escapes []string `json:"escapes"`
}

const (
	watchers   = 2
	escapesMax = 50
	// agentMark is text in every program that contains the agent's packages.
	agentMark     = "machine/internal/agent/spawn"
	agentBytesMin = 1 << 20
	agentBytesMax = 32 << 20
	seize         = 0x4206 // PTRACE_SEIZE
)

type watch struct {
	mu    sync.Mutex
	found Watched
	known map[int]bool
	own   map[uint64]bool // devices of the guest's own file systems
}

func watchProcesses(until string, deadline time.Time) Watched {
	w := &watch{known: map[int]bool{}, own: ownDevices()}
	for _, pid := range pids() {
		w.known[pid] = true
	}
	var all sync.WaitGroup
	for range watchers {
		all.Go(func() {
			runtime.LockOSThread() // ptrace is bound to a thread
			for !exists(until) && time.Now().Before(deadline) {
				for _, pid := range pids() {
					if w.isNew(pid) {
						w.attack(pid)
					}
				}
			}
		})
	}
	all.Wait()
	return w.found
}

func exists(path string) bool {
	var stat syscall.Stat_t
	return syscall.Stat(path, &stat) == nil
}

func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		log.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		log.Fatal(err)
	}
	var found []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

func (w *watch) isNew(pid int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[pid] {
		return false
	}
	w.known[pid] = true
	w.found.Processes++
	return true
}

func (w *watch) attack(pid int) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	memory := w.openMemory(dir)
	for _, what := range []string{"exe", "root", "cwd", "fd/0", "fd/1", "fd/2", "fd/3", "fd/4", "fd/5", "fd/6", "root/agent", "cwd/agent"} {
		for _, how := range []int{syscall.O_RDWR, syscall.O_WRONLY, syscall.O_RDONLY} {
			w.open(dir+what, how)
		}
	}
	w.trace(pid)
	w.readMemory(dir, memory)
}

func (w *watch) open(path string, how int) {
	fd, err := syscall.Open(path, how|syscall.O_NONBLOCK|syscall.O_CLOEXEC|syscall.O_NOCTTY, 0)
	if err != nil {
		w.count(err)
		return
	}
	defer syscall.Close(fd)
	w.count(nil)
	var stat syscall.Stat_t
	if syscall.Fstat(fd, &stat) == nil && (!w.own[stat.Dev] || isAgent(fd, stat)) {
		target, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		w.escaped(fmt.Sprintf("%s (%s) opened with %#x leads to %#x on device %#x", path, target, how, stat.Ino, stat.Dev))
	}
}

// isAgent checks the content, because files next to the guest's root have the same device as the guest's files.
func isAgent(fd int, stat syscall.Stat_t) bool {
	if stat.Mode&syscall.S_IFMT != syscall.S_IFREG || stat.Size < agentBytesMin {
		return false
	}
	again, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd)) // fd may be open for writing only
	if err != nil {
		return false
	}
	defer again.Close()
	text, _ := io.ReadAll(io.LimitReader(again, agentBytesMax))
	return bytes.Contains(text, []byte(agentMark))
}

func (w *watch) count(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.found.Opened++
	} else if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		w.found.Refused++
	}
}

func (w *watch) escaped(how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found.Escapes) < escapesMax {
		w.found.Escapes = append(w.found.Escapes, how)
	}
}

// memory is an open /proc/PID/mem. The file stays bound to this memory, whatever the process executes later.
type memory struct {
	file *os.File
	maps string
}

func (w *watch) openMemory(dir string) *memory {
	file, err := os.OpenFile(dir+"mem", os.O_RDWR, 0)
	w.count(err)
	if err != nil {
		return nil
	}
	maps, _ := os.ReadFile(dir + "maps")
	return &memory{file: file, maps: string(maps)}
}

func (w *watch) readMemory(dir string, m *memory) {
	if m == nil {
		return
	}
	defer m.file.Close()
	for line := range strings.Lines(m.maps) {
		var start, end int64
		if n, _ := fmt.Sscanf(line, "%x-%x", &start, &end); n != 2 || !strings.Contains(line, "agent") && !strings.Contains(line, "memfd:") {
			continue
		}
		text := make([]byte, min(end-start, 8<<20))
		if n, _ := m.file.ReadAt(text, start); bytes.Contains(text[:max(n, 0)], []byte(agentMark)) {
			w.escaped(fmt.Sprintf("%smem shows the agent: %s", dir, strings.TrimSpace(line)))
			return
		}
	}
}

func (w *watch) trace(pid int) {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, seize, uintptr(pid), 0, 0, 0, 0)
	if errno != 0 {
		w.count(errno)
		return
	}
	w.count(nil)
	if maps, _ := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid)); strings.Contains(string(maps), "/agent") {
		w.escaped(fmt.Sprintf("process %d is traced while it has the agent's memory", pid))
	}
	// A tracee can only be detached while it is stopped.
	if syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return
	}
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, syscall.WALL|syscall.WNOHANG, nil); err != nil || status.Exited() || status.Signaled() {
			return
		}
		if status.Stopped() {
			_ = syscall.PtraceDetach(pid)
			_ = syscall.Kill(pid, syscall.SIGCONT)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func ownDevices() map[uint64]bool {
	own := map[uint64]bool{}
	add := func(fd int, err error) {
		if err != nil {
			log.Fatal(err)
		}
		var stat syscall.Stat_t
		if err := syscall.Fstat(fd, &stat); err != nil {
			log.Fatal(err)
		}
		own[stat.Dev] = true
		syscall.Close(fd)
	}
	for _, mount := range mounts() {
		if fd, err := syscall.Open(mount.Point, syscall.O_RDONLY|syscall.O_CLOEXEC, 0); err == nil {
			add(fd, nil)
		}
	}
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		log.Fatal(err)
	}
	add(ends[0], nil)
	add(ends[1], nil)
	name := [...]byte{'x', 0}
	add(memoryFile(&name[0]))
	return own
}

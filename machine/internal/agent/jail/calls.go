package jail

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// None of these calls creates, changes, mounts, executes, traces, signals another process, or opens a socket.
var calls = append([]uint32{
	unix.SYS_READ, unix.SYS_READV, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_LSEEK,
	unix.SYS_FSTAT, fstatat, unix.SYS_STATX, unix.SYS_FSTATFS, unix.SYS_READLINKAT, unix.SYS_GETDENTS64, unix.SYS_OPENAT2, unix.SYS_FADVISE64,
	unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_SHUTDOWN,
	unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_FCNTL,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
	unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_GETTIMEOFDAY,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_TGKILL, unix.SYS_GETRANDOM, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}, olderCalls...)

var networkCalls = []uint32{unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND}

// Offsets in struct seccomp_data, little-endian.
const (
	callAt         = 0
	architectureAt = 4
	argument0At    = 16
)

const (
	threadFlag = unix.CLONE_THREAD
	atCwd      = 1<<32 - 100 // the low 32 bits of AT_FDCWD
)

// filterCalls allows clone only for threads, and openat only with an open directory.
func filterCalls(allowed []uint32) error {
	program := []unix.SockFilter{
		load(architectureAt),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: architecture, Jt: 1},
		answer(unix.SECCOMP_RET_KILL_PROCESS),
		load(callAt),
		// A filter cannot read clone3's flags. After ENOSYS, callers use clone, whose flags it can read.
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE3, Jf: 1},
		refuse(unix.ENOSYS),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jf: 4},
		load(argument0At),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: threadFlag, Jf: 1},
		answer(unix.SECCOMP_RET_ALLOW),
		refuse(unix.EPERM),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_OPENAT, Jf: 4},
		load(argument0At),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: atCwd, Jf: 1},
		refuse(unix.EPERM),
		answer(unix.SECCOMP_RET_ALLOW),
	}
	for _, call := range allowed {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1}, answer(unix.SECCOMP_RET_ALLOW))
	}
	program = append(program, refuse(unix.EPERM))
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("filtering calls: %w", errno)
	}
	return nil
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func answer(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func refuse(errno unix.Errno) unix.SockFilter {
	return answer(unix.SECCOMP_RET_ERRNO | uint32(errno))
}

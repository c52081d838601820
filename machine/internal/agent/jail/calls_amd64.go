package jail

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_X86_64
	fstatat      = unix.SYS_NEWFSTATAT
)

var olderCalls = []uint32{unix.SYS_EPOLL_WAIT, unix.SYS_ARCH_PRCTL}

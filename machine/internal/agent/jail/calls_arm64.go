package jail

import "golang.org/x/sys/unix"

const (
	architecture = unix.AUDIT_ARCH_AARCH64
	fstatat      = unix.SYS_FSTATAT
)

var olderCalls []uint32

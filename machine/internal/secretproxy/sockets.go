package secretproxy

import (
	"net"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// The kernel's memory for connections is charged to this process's cgroup, but Go's memory limit does not include
	// it. So it has this limit.
	socketsTogether = 96 << 20
	socketsEvery    = 100 * time.Millisecond
)

func (p *Proxy) cutSockets() {
	for _, f := range largest(p.budget.flows(), socketsTogether, (*flow).socketBytes) {
		abortFlow(f)
	}
}

// largest selects connections until the rest fits. The machine with the most memory loses its largest connection first.
func largest(flows []*flow, most int, size func(*flow) int) (found []*flow) {
	sizes, machines, all := map[*flow]int{}, map[netip.Addr]int{}, 0
	for _, f := range flows {
		n := size(f)
		sizes[f], machines[f.machine], all = n, machines[f.machine]+n, all+n
	}
	for all > most {
		var first *flow
		for f, n := range sizes {
			if first == nil || machines[f.machine] > machines[first.machine] || f.machine == first.machine && n > sizes[first] {
				first = f
			}
		}
		machines[first.machine], all = machines[first.machine]-sizes[first], all-sizes[first]
		delete(sizes, first)
		found = append(found, first)
	}
	return found
}

func (f *flow) socketBytes() int {
	f.mu.Lock()
	conns := []net.Conn{f.Conn}
	for conn := range f.onward {
		conns = append(conns, conn.(*keptConn).Conn)
	}
	f.mu.Unlock()
	size := 0
	for _, conn := range conns {
		size += heldBytes(conn)
	}
	return size
}

func heldBytes(conn net.Conn) int {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0
	}
	const received, ahead, queued, backlog, words = 0, 4, 5, 7, 9 // SK_MEMINFO_*
	var memory [words]uint32
	err = raw.Control(func(fd uintptr) {
		size := uint32(unsafe.Sizeof(memory))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(&memory)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			memory = [words]uint32{}
		}
	})
	if err != nil {
		return 0
	}
	return int(memory[received] + memory[ahead] + memory[queued] + memory[backlog])
}

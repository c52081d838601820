package spawn

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Layout says where things lie in the slot's root.
type Layout struct {
	ClaimRoot string // the workspace's tree
	Volumes   string // bound to /volumes when it exists
}

// bound are the slot's own mounts that the guest gets too; what the agent mounted below /sys stays behind.
var bound = []struct {
	name  string
	flags uintptr
}{{"dev", unix.MS_BIND | unix.MS_REC}, {"sys", unix.MS_BIND}, {"tmp", unix.MS_BIND | unix.MS_REC}}

// adoptScript makes PID 1 of the guest's namespaces. It does the mounts itself, because proc shows the PID namespace of
// whoever mounts it, and then becomes a program that only sleeps: SIGCHLD ignored makes the kernel reap the orphans.
func adoptScript(l Layout, devNull, program int) (*script, error) {
	s := &script{clone: cloneArgs{flags: vforkFlags | unix.CLONE_NEWNS | unix.CLONE_NEWPID, exitSignal: uint64(unix.SIGCHLD)}}
	m := &mounter{s: s}
	s.add(StageFork, false, unix.SYS_SETSID)
	s.ignoreSIGCHLD()
	for fd := uintptr(0); fd < 3; fd++ {
		s.add(StageFork, false, unix.SYS_DUP3, uintptr(devNull), fd, 0)
	}
	m.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "", false)
	m.mount(l.ClaimRoot, l.ClaimRoot, "", unix.MS_BIND|unix.MS_REC, "", false)
	m.mount("proc", l.ClaimRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "", false)
	m.bindSlot(l)
	m.pivot(l.ClaimRoot)
	if m.err != nil {
		return nil, m.err
	}
	s.unblock()
	argv, err := syscall.SlicePtrFromStrings([]string{"init"})
	if err != nil {
		return nil, err
	}
	s.argv, s.env = &argv[0], &argv[1]
	s.execFD = uintptr(program)
	return s, nil
}

func (s *script) ignoreSIGCHLD() {
	// The kernel's sigaction: handler, flags, restorer, mask.
	action := &[4]uintptr{1}
	s.add(StageFork, false, unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), s.keep(unsafe.Pointer(action)), 0, 8)
}

type mounter struct {
	s   *script
	err error
}

func (m *mounter) text(v string) uintptr {
	p, err := syscall.BytePtrFromString(v)
	if err != nil {
		m.err = err
		return 0
	}
	return m.s.keep(unsafe.Pointer(p))
}

func (m *mounter) mount(source, target, kind string, flags uintptr, data string, soft bool) {
	m.s.add(StageMount, soft, unix.SYS_MOUNT, m.text(source), m.text(target), m.text(kind), flags, m.text(data))
}

func (m *mounter) bindSlot(l Layout) {
	for _, b := range bound {
		if _, err := os.Stat("/" + b.name); err == nil {
			m.mount("/"+b.name, l.ClaimRoot+"/"+b.name, "", b.flags, "", false)
		} else if b.name == "tmp" {
			m.mount("tmpfs", l.ClaimRoot+"/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=256m", false)
		}
	}
	if l.Volumes == "" {
		return
	}
	if _, err := os.Stat(l.Volumes); err == nil {
		m.mount(l.Volumes, l.ClaimRoot+"/volumes", "", unix.MS_BIND|unix.MS_REC, "", false)
	}
}

// pivot makes the claim the root of the namespace and lets go of everything else.
func (m *mounter) pivot(root string) {
	m.s.add(StageMount, false, unix.SYS_CHDIR, m.text(root))
	m.s.add(StageMount, false, unix.SYS_PIVOT_ROOT, m.text("."), m.text("."))
	m.s.add(StageMount, false, unix.SYS_UMOUNT2, m.text("."), unix.MNT_DETACH)
	m.s.add(StageMount, false, unix.SYS_CHDIR, m.text("/"))
}

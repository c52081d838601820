package spawn

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/identity"
)

// Layout holds paths in the sandbox's root.
type Layout struct {
	ClaimRoot string
	State     string // the workspace's state directory, with the files of identity.Boot
	Volumes   string // bound to /volumes if it exists
}

// The guest gets the sandbox's /dev and /sys, without the agent's mounts below /sys.
var bound = []struct {
	name  string
	flags uintptr
}{{"dev", unix.MS_BIND | unix.MS_REC}, {"sys", unix.MS_BIND}}

// adoptProgram is the program of the guest's init. Init mounts the tree itself, because proc shows the PID namespace
// of the mounting process. Init ignores SIGCHLD, so the kernel reaps orphans.
func adoptProgram(l Layout, program int) ([]byte, error) {
	m := newInit(program)
	m.mount(l.ClaimRoot, l.ClaimRoot, "", unix.MS_BIND|unix.MS_REC, "", false)
	m.mount("proc", l.ClaimRoot+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "", false)
	m.bindState(l)
	m.bindSlot(l)
	m.pivot(l.ClaimRoot)
	return m.becomeInit()
}

type mounter struct{ builder }

func newInit(program int) *mounter {
	m := &mounter{builder{header: header{
		clone: vforkFlags | unix.CLONE_NEWNS | unix.CLONE_NEWPID, exitSignal: uint64(unix.SIGCHLD), execFD: uint64(program),
	}}}
	m.add(StageFork, false, unix.SYS_SETSID)
	m.ignoreSIGCHLD()
	m.add(StageFork, false, unix.SYS_DUP3, numbers(devNullFD, 2, 0)...) // descriptor 1 is /dev/null already
	m.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "", false)
	return m
}

func (m *mounter) becomeInit() ([]byte, error) {
	m.unblock()
	m.header.argv, m.header.env = m.texts([]string{"init"}), m.texts(nil)
	return m.build()
}

func (m *mounter) ignoreSIGCHLD() {
	action := m.words(1, 0, 0, 0)
	m.add(StageFork, false, unix.SYS_RT_SIGACTION, number(uintptr(unix.SIGCHLD)), action, number(0), number(8))
}

func (m *mounter) mount(source, target, kind string, flags uintptr, data string, soft bool) {
	m.add(StageMount, soft, unix.SYS_MOUNT, m.text(source), m.text(target), m.text(kind), number(flags), m.text(data))
}

// /tmp uses the workspace's disk (decision 254).
func (m *mounter) bindState(l Layout) {
	tmp := l.ClaimRoot + "/tmp"
	m.mount(l.State+"/"+identity.Tmp, tmp, "", unix.MS_BIND, "", false)
	m.mount("", tmp, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, "", true)
	// Without this mount the guest would read the kernel's boot id, which a fork shares.
	m.mount(l.State+"/"+identity.BootID, l.ClaimRoot+"/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, "", true)
}

func (m *mounter) bindSlot(l Layout) {
	for _, b := range bound {
		if _, err := os.Stat("/" + b.name); err == nil {
			m.mount("/"+b.name, l.ClaimRoot+"/"+b.name, "", b.flags, "", false)
		}
	}
	if l.Volumes == "" {
		return
	}
	if _, err := os.Stat(l.Volumes); err == nil {
		m.mount(l.Volumes, l.ClaimRoot+"/volumes", "", unix.MS_BIND|unix.MS_REC, "", false)
	}
}

func (m *mounter) pivot(root string) {
	m.add(StageMount, false, unix.SYS_CHDIR, m.text(root))
	m.add(StageMount, false, unix.SYS_PIVOT_ROOT, m.text("."), m.text("."))
	m.add(StageMount, false, unix.SYS_UMOUNT2, m.text("."), number(unix.MNT_DETACH))
	m.add(StageMount, false, unix.SYS_CHDIR, m.text("/"))
}

package processes

import (
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	fileBytesMax  = 16 << 10
	entriesMax    = 100_000 // names read in /proc
	ancestorsMax  = 4096
	firstGuestPID = 2 // pid 1 is the agent's init, no process of the workspace
)

type Guest interface {
	Root() (*guestroot.Root, error)
	User(name string) (guestroot.User, bool, error)
}

// List returns the guest's processes, sorted by pid. leaders maps pids to session ids.
func List(g Guest, leaders map[int]string, limit int) (wire.ProcessList, error) {
	root, err := g.Root()
	if err != nil {
		return wire.ProcessList{}, err
	}
	defer root.Release()
	proc, err := openProc(root)
	if err != nil {
		return wire.ProcessList{}, err
	}
	defer proc.Close()
	if limit <= 0 || limit > wire.ProcessesMax {
		limit = wire.ProcessesMax
	}
	found, err := readAll(proc)
	if err != nil {
		return wire.ProcessList{}, err
	}
	l := lister{guest: g, proc: proc, leaders: leaders, stats: found, users: map[uint32]string{}}
	l.boot, _ = parseBootTime(readFile(proc, "stat"))
	return l.list(limit), nil
}

// openProc accepts only a proc file system, because reads of another file system could block forever.
func openProc(root *guestroot.Root) (*os.File, error) {
	unavailable := fail.Conflict("guest_feature_unavailable", "The guest's /proc is not there").With("feature", "proc")
	fd, err := root.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, unavailable
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return nil, unavailable
	}
	return os.NewFile(uintptr(fd), "/proc"), nil
}

func readFile(proc *os.File, name string) []byte {
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := unix.Openat2(int(proc.Fd()), name, how)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b := make([]byte, fileBytesMax)
	n := 0
	for n < len(b) {
		more, err := unix.Read(fd, b[n:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || more <= 0 {
			break
		}
		n += more
	}
	return b[:n]
}

func readAll(proc *os.File) (map[int]stat, error) {
	names, err := proc.Readdirnames(entriesMax)
	if err != nil {
		return nil, err
	}
	found := make(map[int]stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid < firstGuestPID {
			continue
		}
		if s, err := parseStat(readFile(proc, name+"/stat")); err == nil && s.pid == pid {
			found[pid] = s
		}
	}
	return found, nil
}

type lister struct {
	guest   Guest
	proc    *os.File
	leaders map[int]string
	stats   map[int]stat
	users   map[uint32]string
	boot    time.Time
}

func (l *lister) list(limit int) wire.ProcessList {
	pids := make([]int, 0, len(l.stats))
	for pid := range l.stats {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	list := wire.ProcessList{Processes: []wire.Process{}, Truncated: len(pids) > limit}
	for _, pid := range pids[:min(limit, len(pids))] {
		list.Processes = append(list.Processes, l.describe(l.stats[pid]))
	}
	return list
}

func (l *lister) describe(s stat) wire.Process {
	folder := strconv.Itoa(s.pid)
	command, truncated := parseCommand(readFile(l.proc, folder+"/cmdline"))
	started := l.boot.Add(time.Duration(s.startTicks) * (time.Second / ticksPerSecond))
	return wire.Process{
		PID: s.pid, PPID: s.ppid, User: l.userOf(folder), Name: s.name,
		Command: command, CommandTruncated: truncated,
		State: stateOf(s.state), Threads: s.threads,
		CPUMS: s.cpuTicks * 1000 / ticksPerSecond, MemoryBytes: s.residentPages * pageBytes,
		StartedAt: started.UTC().Format("2006-01-02T15:04:05.000Z"),
		SessionID: sessionOf(s, l.stats, l.leaders),
	}
}

func (l *lister) userOf(folder string) string {
	uid, ok := parseUID(readFile(l.proc, folder+"/status"))
	if !ok {
		return "" // the process has ended
	}
	if name, known := l.users[uid]; known {
		return name
	}
	name := strconv.FormatUint(uint64(uid), 10)
	if user, ok, err := l.guest.User(name); ok && err == nil {
		name = text([]byte(user.Name), nameBytesMax)
	}
	l.users[uid] = name
	return name
}

// sessionOf also follows the kernel's session id, which names the leader even if a parent in between has ended.
func sessionOf(s stat, stats map[int]stat, leaders map[int]string) *string {
	at := s
	for range ancestorsMax {
		for _, pid := range []int{at.pid, at.sid} {
			if id, ok := leaders[pid]; ok {
				return &id
			}
		}
		parent, ok := stats[at.ppid]
		if !ok {
			return nil
		}
		at = parent
	}
	return nil
}

package guest

import (
	"errors"
	"log"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/agent/procfs"
	"github.com/berth-dev/berth/machine/internal/agent/spawn"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Unmounting says what happens to processes that use a volume.
type Unmounting int

const (
	// LeaveBusy leaves a volume mounted while a process uses it.
	LeaveBusy Unmounting = iota
	// EndUsers kills the processes that use the volume.
	EndUsers
	// Detach unmounts despite open files and kills no process, because the host has already removed the volume.
	Detach
)

const endedTime = 5 * time.Second

// SetVolumes unmounts every other volume; if none is busy, it mounts the wanted volumes. Calls must not overlap.
func (g *Guest) SetVolumes(wanted []wire.Volume, how Unmounting) (wire.GuestVolumes, error) {
	answer := wire.GuestVolumes{Busy: []int{}, Refused: []wire.RefusedVolume{}}
	if len(wanted) == 0 && len(g.mounted()) == 0 {
		return answer, nil
	}
	in, err := g.acquire()
	if err != nil {
		return answer, err
	}
	defer in.starts.Done()
	had := g.mounted()
	for _, v := range had {
		if slices.Contains(wanted, v) {
			continue
		}
		if g.unmountVolume(in, v, how) {
			had = slices.DeleteFunc(slices.Clone(had), func(other wire.Volume) bool { return other == v })
		} else {
			answer.Busy = append(answer.Busy, v.Place)
		}
	}
	if len(answer.Busy) == 0 {
		had, answer.Refused = g.mountVolumes(in, had, wanted)
	}
	g.mu.Lock()
	g.volumes = had
	g.mu.Unlock()
	return answer, nil
}

func (g *Guest) mounted() []wire.Volume {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.volumes
}

func (g *Guest) mountVolumes(in *adoptedSpawner, had, wanted []wire.Volume) (mounted []wire.Volume, refused []wire.RefusedVolume) {
	mounted, refused = slices.Clone(had), []wire.RefusedVolume{}
	for _, v := range wanted {
		if slices.Contains(had, v) {
			continue
		}
		if why := g.mountVolume(in, v); why != "" {
			refused = append(refused, wire.RefusedVolume{Place: v.Place, Why: why})
		} else {
			mounted = append(mounted, v)
		}
	}
	return mounted, refused
}

func (g *Guest) mountVolume(in *adoptedSpawner, v wire.Volume) (why string) {
	directory, err := makeDirectory(in.root, v.MountPath)
	if err == nil {
		defer unix.Close(directory)
		err = g.reapMount(in.spawner.MountVolume(v.Place, directory))
	}
	if err == nil {
		return ""
	}
	log.Printf("mounting a volume at %q: %v", v.MountPath, err)
	switch {
	case errors.Is(err, unix.ELOOP):
		return wire.WhyOverALink
	case errors.Is(err, unix.ENOTDIR):
		return wire.WhyNotADirectory
	default:
		return wire.WhyMount
	}
}

func (g *Guest) reapMount(started spawn.Started, err error) error {
	var failed *spawn.StartError
	switch {
	case err == nil:
		g.reaper.Forget(started.PID)
	case errors.As(err, &failed):
		if failed.PID != 0 {
			g.reaper.Forget(failed.PID)
		}
		return failed.Errno
	}
	return err
}

// makeDirectory creates missing directories and follows no links.
func makeDirectory(root *guestroot.Root, at string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY
	parent, err := root.OpenPlain("/", flags)
	if err != nil {
		return -1, err
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(at, "/"), "/") {
		if err := unix.Mkdirat(parent, name, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			unix.Close(parent)
			return -1, err
		}
		how := &unix.OpenHow{Flags: flags | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
		next, err := unix.Openat2(parent, name, how)
		if errors.Is(err, unix.ENOTDIR) && isLink(parent, name) {
			err = unix.ELOOP
		}
		unix.Close(parent)
		if err != nil {
			return -1, err
		}
		parent = next
	}
	return parent, nil
}

func isLink(parent int, name string) bool {
	var stat unix.Stat_t
	return unix.Fstatat(parent, name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && stat.Mode&unix.S_IFMT == unix.S_IFLNK
}

// unmountVolume returns true if the guest's root user moved or unmounted the volume. Only the host can then find out
// whether the volume is in use.
func (g *Guest) unmountVolume(in *adoptedSpawner, v wire.Volume, how Unmounting) bool {
	if how == Detach {
		return g.unmountAt(in, v, true) == nil
	}
	if !isVolumeAt(in.root, v.MountPath) {
		return true
	}
	err := g.unmountAt(in, v, false)
	if err == nil || !errors.Is(err, unix.EBUSY) || how == LeaveBusy {
		return err == nil
	}
	endUsers(v)
	for end := time.Now().Add(endedTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = g.unmountAt(in, v, false); !errors.Is(err, unix.EBUSY) {
			return err == nil
		}
	}
	return g.unmountAt(in, v, true) == nil
}

func (g *Guest) unmountAt(in *adoptedSpawner, v wire.Volume, detach bool) error {
	parent, err := in.root.OpenPlain(path.Dir(v.MountPath), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	err = g.reapMount(in.spawner.UnmountVolume(parent, path.Base(v.MountPath), detach))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil // not mounted there
	}
	return err
}

func isVolumeAt(root *guestroot.Root, at string) bool {
	var base, found unix.Stat_t
	if unix.Stat("/volumes", &base) != nil {
		return false
	}
	fd, err := root.OpenPlain(at, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Fstat(fd, &found) == nil && found.Dev == base.Dev
}

func endUsers(v wire.Volume) {
	below := []string{v.MountPath, "/volumes/" + strconv.Itoa(v.Place)}
	for _, pid := range procfs.Users(below) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			log.Printf("ending process %d, which uses a volume: %v", pid, err)
		}
	}
}

package spawn

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// A short-lived process in the guest's mount namespace mounts a volume. Its working directory is the opened target,
// so renames cannot redirect the mount.

// MountVolume binds /volumes/<place> to directory.
func (s *Spawner) MountVolume(place, directory int) (Started, error) {
	return s.inPlace(directory, func(b *builder) {
		b.add(StageMount, false, unix.SYS_MOUNT, b.text("/volumes/"+strconv.Itoa(place)), b.text("."), b.text(""), number(unix.MS_BIND), b.text(""))
	})
}

// UnmountVolume returns EBUSY for a mount in use, unless detach is set.
func (s *Spawner) UnmountVolume(directory int, name string, detach bool) (Started, error) {
	flags := uintptr(unix.UMOUNT_NOFOLLOW)
	if detach {
		flags |= unix.MNT_DETACH
	}
	return s.inPlace(directory, func(b *builder) {
		b.add(StageMount, false, unix.SYS_UMOUNT2, b.text("./"+name), number(flags))
	})
}

func (s *Spawner) inPlace(directory int, steps func(*builder)) (Started, error) {
	b := &builder{header: header{clone: vforkFlags | unix.CLONE_PARENT}}
	b.add(StageCwd, false, unix.SYS_FCHDIR, passed(0))
	b.add(StageFork, false, unix.SYS_CLOSE_RANGE, numbers(0, 0x7fffffff, 0)...)
	steps(b)
	b.add(StageFork, false, unix.SYS_EXIT, number(0))
	program, err := b.build()
	if err != nil {
		return Started{}, err
	}
	return s.run(program, unix.UnixRights(directory), nil)
}

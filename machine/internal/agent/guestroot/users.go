package guestroot

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	accountBytesMax = 1 << 20
	accountLinesMax = 20000
	groupsMax       = 64
)

type User struct {
	Name, Home, Shell string
	UID, GID          uint32
	Groups            []uint32 // supplementary, with the primary group
}

// Users caches /etc/passwd and /etc/group until they change.
type Users struct {
	mu            sync.Mutex
	passwd, group cached
}

type cached struct {
	key  [6]int64
	data []byte
}

// Find finds a user by name or decimal uid.
func (u *Users) Find(r *Root, name string) (User, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	passwd := u.passwd.read(r, "/etc/passwd")
	user, ok := findUser(passwd, name)
	if !ok {
		return User{}, false
	}
	user.Groups = groupsOf(u.group.read(r, "/etc/group"), user)
	return user, true
}

func (c *cached) read(r *Root, path string) []byte {
	if c.fresh(r, path) {
		return c.data
	}
	fd, err := r.Open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > accountBytesMax {
		return nil
	}
	data := make([]byte, st.Size)
	n, _ := f.ReadAt(data, 0) // a file that has shrunk is read up to its new end
	c.key, c.data = keyOf(&st), data[:n]
	return c.data
}

// If /etc is a link, the path resolves in the agent's view. This is harmless: only numbers are read, and the
// comparison can only fail.
func (c *cached) fresh(r *Root, path string) bool {
	var st unix.Stat_t
	return c.data != nil && unix.Fstatat(r.fd, path[1:], &st, unix.AT_SYMLINK_NOFOLLOW) == nil && keyOf(&st) == c.key
}

func keyOf(st *unix.Stat_t) [6]int64 {
	return [6]int64{int64(st.Ino), st.Size, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec}
}

func lines(data []byte, fieldsMin int, each func(fields []string) bool) {
	for range accountLinesMax {
		line, rest, more := bytes.Cut(data, []byte{'\n'})
		if fields := bytes.Split(line, []byte{':'}); len(fields) >= fieldsMin && len(fields) < 16 {
			text := make([]string, len(fields))
			for i, f := range fields {
				text[i] = string(f)
			}
			if each(text) {
				return
			}
		}
		if !more {
			return
		}
		data = rest
	}
}

func findUser(passwd []byte, name string) (User, bool) {
	var found User
	ok := false
	lines(passwd, 7, func(f []string) bool {
		if f[0] != name && f[2] != name {
			return false
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		// setresuid ignores uid -1, so a line with this uid would run the command as root. The line is skipped.
		if err1 != nil || err2 != nil || uid == 1<<32-1 || gid == 1<<32-1 {
			return false
		}
		found = User{Name: f[0], UID: uint32(uid), GID: uint32(gid), Home: f[5], Shell: f[6]}
		ok = true
		return true
	})
	return found, ok && found.Name != ""
}

func groupsOf(group []byte, user User) []uint32 {
	list := []uint32{user.GID}
	lines(group, 4, func(f []string) bool {
		gid, err := strconv.ParseUint(f[2], 10, 32)
		if err == nil && uint32(gid) != user.GID && member(f[3], user.Name) {
			list = append(list, uint32(gid))
		}
		return len(list) >= groupsMax
	})
	return list
}

func member(list, name string) bool {
	for list != "" {
		i := 0
		for i < len(list) && list[i] != ',' {
			i++
		}
		if list[:i] == name {
			return true
		}
		list = list[min(i+1, len(list)):]
	}
	return false
}

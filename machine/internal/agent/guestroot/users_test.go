package guestroot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestUsersAreFoundAndFollowChanges(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("passwd", "root:x:0:0:root:/root:/bin/bash\nshort:x\nbad:x:-1:0::/:/\nall:x:4294967295:0::/:/\nuser:x:1000:1000::/home/user:/bin/sh")
	write("group", "sudo:x:27:user,other\nvideo:x:44:users,xuser\nuser:x:1000:\naudio:x:29:other,user\n")
	r, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var u Users
	got, ok := u.Find(r, "user")
	if !ok || got.UID != 1000 || got.Home != "/home/user" || !slices.Equal(got.Groups, []uint32{1000, 27, 29}) {
		t.Fatalf("%+v", got)
	}
	if by, ok := u.Find(r, "1000"); !ok || by.Name != "user" {
		t.Fatalf("%+v", by)
	}
	for _, name := range []string{"bad", "all", "short", "nobody", ""} {
		if got, ok := u.Find(r, name); ok {
			t.Errorf("%q: %+v", name, got)
		}
	}
	write("passwd", "user:x:1001:1000::/elsewhere:/bin/sh\n")
	if got, ok := u.Find(r, "user"); !ok || got.UID != 1001 {
		t.Fatalf("after a change: %+v", got)
	}
	write("passwd", strings.Repeat("x", 2<<20))
	if _, ok := u.Find(r, "user"); ok {
		t.Fatal("a huge file was read")
	}
}

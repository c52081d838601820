package layers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/pool"
)

func plan(t *testing.T, from string, drop ...string) Plan {
	t.Helper()
	file, err := os.Open(from)
	must(t, err)
	t.Cleanup(func() { file.Close() })
	dropped, err := ParseDropped(drop)
	must(t, err)
	return Plan{From: file, Dropped: dropped, BytesMax: 64 << 20, EntriesMax: 1000, At: func(string) error { return nil },
		Run: func(command *exec.Cmd, _ int64) error { return command.Run() }}
}

func makeOf(t *testing.T, store *Store, p Plan) Made {
	t.Helper()
	made, err := store.Make(context.Background(), "one.1", p)
	must(t, err)
	return made
}

func changed(t *testing.T, p interface{ DiskPath(string, string) string }, lower []string) (disk string) {
	t.Helper()
	disk = p.DiskPath(ws, "d0")
	merged := t.TempDir()
	must(t, Overlay(lower, disk, merged))
	must(t, os.Remove(filepath.Join(merged, "etc/name")))
	must(t, os.RemoveAll(filepath.Join(merged, "etc/sub")))
	must(t, os.Mkdir(filepath.Join(merged, "etc/sub"), 0o711)) // opaque: it replaces an existing one
	must(t, os.Rename(filepath.Join(merged, "old"), filepath.Join(merged, "moved")))
	must(t, os.WriteFile(filepath.Join(merged, "one"), []byte("linked"), 0o640))
	must(t, os.Link(filepath.Join(merged, "one"), filepath.Join(merged, "two")))
	must(t, os.Chown(filepath.Join(merged, "one"), 1000, 1001))
	must(t, unix.Setxattr(filepath.Join(merged, "one"), "user.mark", []byte("kept"), 0))
	must(t, os.Symlink("../../etc/passwd", filepath.Join(merged, "link")))
	must(t, unix.Mkfifo(filepath.Join(merged, "pipe"), 0o600))
	for _, path := range []string{"tmp/a/b", "var/log/x", "home/user/.bash_history"} {
		must(t, os.MkdirAll(filepath.Join(merged, filepath.Dir(path)), 0o755))
		must(t, os.WriteFile(filepath.Join(merged, path), []byte("gone"), 0o600))
	}
	must(t, unix.Unmount(merged, 0))
	return disk
}

func lowerWithMovable(t *testing.T, store *Store) string {
	t.Helper()
	tree := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(tree, "etc/sub/inner"), 0o755))
	must(t, os.MkdirAll(filepath.Join(tree, "old"), 0o755))
	must(t, os.WriteFile(filepath.Join(tree, "old/deep"), []byte("deep"), 0o644))
	must(t, os.WriteFile(filepath.Join(tree, "etc/name"), []byte("base"), 0o644))
	point, err := store.Mount(makeOf(t, store, plan(t, tree)).Digest)
	must(t, err)
	return point
}

func TestALayerOfAnUpperDirectoryShowsWhatItsMachineSaw(t *testing.T) {
	store, pool := openTestStore(t, t.TempDir()), openTestPool(t)
	lower := lowerWithMovable(t, store)
	disk := changed(t, pool, []string{lower})
	made := makeOf(t, store, plan(t, filepath.Join(disk, "upper"), "/tmp/", "/var/log/", "/home/*/.bash_history"))
	point, err := store.Mount(made.Digest)
	must(t, err)
	merged := t.TempDir()
	must(t, View([]string{point, lower}, merged))
	defer unix.Unmount(merged, unix.MNT_DETACH)
	for path, there := range map[string]bool{"etc/name": false, "etc/sub": true, "etc/sub/inner": false, "old": false, "moved/deep": true, "one": true,
		"pipe": true, "tmp": true, "tmp/a": false, "var/log": true, "var/log/x": false, "home/user": true, "home/user/.bash_history": false} {
		if _, err := os.Lstat(filepath.Join(merged, path)); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
	var one, two unix.Stat_t
	must(t, unix.Lstat(filepath.Join(merged, "one"), &one))
	must(t, unix.Lstat(filepath.Join(merged, "two"), &two))
	if one.Ino != two.Ino || one.Nlink != 2 || one.Uid != 1000 || one.Gid != 1001 || one.Mode&0o777 != 0o640 {
		t.Errorf("the linked file is %+v and %+v", one, two)
	}
	value := make([]byte, 16)
	n, err := unix.Getxattr(filepath.Join(merged, "one"), "user.mark", value)
	if err != nil || string(value[:n]) != "kept" {
		t.Errorf("the attribute is %q: %v", value[:max(n, 0)], err)
	}
	if target, err := os.Readlink(filepath.Join(merged, "link")); target != "../../etc/passwd" {
		t.Errorf("the link leads to %q: %v", target, err)
	}
}

func TestOneDirectoryMakesOneLayerHoweverOften(t *testing.T) {
	store := openTestStore(t, t.TempDir())
	tree := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tree, "a"), []byte("text"), 0o644))
	first, second := makeOf(t, store, plan(t, tree)), makeOf(t, store, plan(t, tree))
	if first != second {
		t.Fatalf("%+v, then %+v", first, second)
	}
	must(t, os.Chmod(filepath.Join(store.dir, first.Digest+".erofs"), 0o600))
	must(t, os.WriteFile(filepath.Join(store.dir, first.Digest+".erofs"), []byte("damaged"), 0o600))
	synced := 0
	store.syncDir = func(dir string) error { synced++; return pool.SyncDir(dir) }
	makeOf(t, store, plan(t, tree))
	makeOf(t, store, plan(t, tree))
	if synced != 2 {
		t.Errorf("the directory was made durable %d times for two answers: the process of the first may have died before it was", synced)
	}
	if _, err := store.Mount(first.Digest); err != nil {
		t.Fatalf("a layer that was damaged and made again: %v", err)
	}
}

func TestALayerThatIsTooLargeIsRefusedBeforeItIsWrittenAndOneThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	store := openTestStore(t, dir)
	tree := t.TempDir()
	must(t, os.WriteFile(filepath.Join(tree, "a"), nil, 0o644))
	must(t, os.Truncate(filepath.Join(tree, "a"), 1<<40)) // only a hole
	big := plan(t, tree)
	many := plan(t, tree)
	many.EntriesMax, many.BytesMax = 1, 1<<41
	halted := plan(t, t.TempDir())
	errHalt := errors.New("halt")
	halted.At = func(step string) error {
		if step == "rename" {
			return errHalt
		}
		return nil
	}
	killed := plan(t, t.TempDir())
	killed.Run = func(*exec.Cmd, int64) error { return exec.Command("sh", "-c", "kill -9 $$").Run() }
	for _, refused := range []struct {
		why  error
		plan Plan
	}{{ErrTooLarge, big}, {ErrTooManyEntries, many}, {errHalt, halted}, {ErrTooManyEntries, killed}} {
		if _, err := store.Make(context.Background(), "one.1", refused.plan); !errors.Is(err, refused.why) {
			t.Errorf("%v instead of %v", err, refused.why)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*.erofs"))
	must(t, err)
	images, err := filepath.Glob(filepath.Join(dir, "*.erofs"))
	must(t, err)
	if len(left)+len(images) > 0 {
		t.Fatalf("left: %v %v", left, images)
	}
}

func TestAManyNamedDirectoryIsReadNoFurtherThanItsEntriesMayBeAndFitsIntoTheMemoryOfItsProgram(t *testing.T) {
	tree := t.TempDir()
	for i := range 20_000 {
		must(t, os.WriteFile(filepath.Join(tree, fmt.Sprint(i)), nil, 0o600))
	}
	p := plan(t, tree)
	p.EntriesMax = 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	size, err := measure(context.Background(), p)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrTooManyEntries) || size.entries != 11 || took > 512<<10 {
		t.Errorf("%d entries, %v; %d bytes of memory", size.entries, err, took)
	}

	p.EntriesMax = 20_001
	p.Run = func(command *exec.Cmd, memory int64) error {
		err := command.Run()
		usage, _ := command.ProcessState.SysUsage().(*syscall.Rusage)
		if used := usage.Maxrss << 10; memory != ProgramMemory(20_001) || used > memory {
			t.Errorf("the program used %d MiB and may use %d", used>>20, memory>>20)
		}
		return err
	}
	makeOf(t, openTestStore(t, t.TempDir()), p)
}

func TestWhatIsDroppedIsNamedByAbsolutePaths(t *testing.T) {
	d, err := ParseDropped([]string{"/tmp/", "/etc/machine-id", "/home/*/.cache/", "/etc/ssh/ssh_host_*", "/a.b"})
	must(t, err)
	for _, path := range []string{"tmp/a", "tmp/a/b", "etc/machine-id", "home/u/.cache/x", "etc/ssh/ssh_host_rsa_key", "a.b", "a.b/c"} {
		if !d.Holds(path) {
			t.Errorf("%s is kept", path)
		}
	}
	for _, path := range []string{"tmp", "tmpx/a", "x/tmp/a", "etc/machine-idx", "home/u/v/.cache/x", "home/u/.cache", "etc/ssh/sshd_config", "axb"} {
		if d.Holds(path) {
			t.Errorf("%s is dropped", path)
		}
	}
	for _, wrong := range []string{"", "/", "tmp", "/a/../b", "/a//b", "/a\nb", "//"} {
		if _, err := ParseDropped([]string{wrong}); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

func TestAnImageLeavesTheReserve(t *testing.T) {
	dir, tree := t.TempDir(), t.TempDir()
	store := openTestStore(t, dir)
	must(t, os.WriteFile(filepath.Join(tree, "file"), make([]byte, 1<<20), 0o600))
	must(t, os.WriteFile(filepath.Join(tree, "holes"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(tree, "holes"), 32<<20)) // uses no disk space
	var fs unix.Statfs_t
	must(t, unix.Statfs(dir, &fs))
	free := int64(fs.Bavail) * fs.Bsize
	store.KeepFree(2 * free)
	if _, err := store.Make(context.Background(), "one.1", plan(t, tree)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("an image that would take of the reserve: %v", err)
	}
	store.KeepFree(free / 2)
	makeOf(t, store, plan(t, tree))
	release, err := store.hold(free / 3) // as if another image were being written
	must(t, err)
	if _, err := store.hold(free / 3); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("two images that would take of the reserve together: %v", err)
	}
	release()
	if store.reserve.held != 0 {
		t.Fatalf("%d bytes stay held", store.reserve.held)
	}
}

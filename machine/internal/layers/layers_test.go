package layers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/machine/internal/pool"
	"golang.org/x/sys/unix"
)

const ws = "0198c0de-0000-7000-8000-000000000001"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func makeLayer(t *testing.T, dir, content string) string {
	t.Helper()
	tree := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(tree, "etc/sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(tree, "etc/name"), []byte(content), 0o644))
	image := filepath.Join(t.TempDir(), "layer")
	if output, err := exec.Command("mkfs.erofs", "--quiet", image, tree).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.erofs (package erofs-utils): %v: %s", err, output)
	}
	bytes, err := os.ReadFile(image)
	must(t, err)
	sum := sha256.Sum256(bytes)
	digest := hex.EncodeToString(sum[:])
	must(t, os.WriteFile(filepath.Join(dir, digest+".erofs"), bytes, 0o600))
	return digest
}

func openTestPool(t *testing.T) *pool.Pool {
	t.Helper()
	dir := t.TempDir()
	c := pool.Config{Image: filepath.Join(dir, "pool.img"), Mount: filepath.Join(dir, "pool"), SizeBytes: 512 << 20}
	p, err := pool.Open(context.Background(), c)
	must(t, err)
	t.Cleanup(func() { unix.Unmount(c.Mount, unix.MNT_DETACH) })
	must(t, p.EnsureWorkspace(ws, 1))
	must(t, p.CreateDisk(ws, "d0"))
	return p
}

func openTestStore(t *testing.T, dir string) *Store {
	t.Helper()
	store := Open(dir)
	t.Cleanup(func() {
		points, err := filepath.Glob(filepath.Join(dir, "mnt", "*"))
		must(t, err)
		for _, point := range points {
			must(t, unix.Unmount(point, 0))
			if isErofs(point) {
				t.Errorf("a second mount lay under the first at %s", point)
			}
		}
	})
	return store
}

func TestALayerIsVerifiedAndMountedOnce(t *testing.T) {
	dir := t.TempDir()
	digest := makeLayer(t, dir, "one")
	store := openTestStore(t, dir)
	point, err := store.Mount(digest)
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(point, "etc/name")); string(text) != "one" || err != nil {
		t.Fatalf("content %q, %v", text, err)
	}
	if again, err := Open(dir).Mount(digest); again != point || err != nil {
		t.Fatalf("after a restart: %q, %v", again, err)
	}
}

func TestALayerIsMountedThroughALoopDeviceWhereTheFileItselfCannotBe(t *testing.T) {
	dir := t.TempDir()
	digest := makeLayer(t, dir, "one")
	point := t.TempDir()
	must(t, mountThroughLoop(filepath.Join(dir, digest+".erofs"), point))
	t.Cleanup(func() { must(t, unix.Unmount(point, 0)) })
	if text, err := os.ReadFile(filepath.Join(point, "etc/name")); string(text) != "one" || err != nil {
		t.Fatalf("content %q, %v", text, err)
	}
}

func TestChangedBytesAreRefusedBeforeAndAfterTheFirstMount(t *testing.T) {
	dir := t.TempDir()
	digest := makeLayer(t, dir, "one")
	image := filepath.Join(dir, digest+".erofs")
	store := openTestStore(t, dir)
	good, err := os.ReadFile(image)
	must(t, err)
	flip := func() {
		bad := append([]byte{}, good...)
		bad[len(bad)-1] ^= 1
		must(t, os.WriteFile(image, bad, 0o600))
	}
	flip()
	if _, err := store.Mount(digest); !errors.Is(err, ErrCorrupt) {
		t.Errorf("before the first mount: %v", err)
	}
	must(t, os.WriteFile(image, good, 0o600))
	point, err := store.Mount(digest)
	must(t, err)
	flip()
	if _, err := store.Mount(digest); !errors.Is(err, ErrCorrupt) {
		t.Errorf("after the first mount: %v", err)
	}
	must(t, os.WriteFile(image, good, 0o600))
	if again, err := store.Mount(digest); again != point || err != nil {
		t.Errorf("put right again: %q, %v", again, err)
	}
	if text, err := os.ReadFile(filepath.Join(point, "etc/name")); string(text) != "one" || err != nil {
		t.Errorf("content %q, %v", text, err)
	}
}

func linkedAtLooks(t *testing.T, first int) (store *Store, digest string, looks *int) {
	dir := t.TempDir()
	digest = makeLayer(t, dir, "one")
	store, looks = openTestStore(t, dir), new(int)
	store.secondLook = func(image string) {
		if *looks++; *looks <= first {
			must(t, os.Link(image, filepath.Join(dir, fmt.Sprint("link", *looks))))
		}
	}
	return store, digest, looks
}

func TestALayerThatIsLinkedWhileItIsReadIsReadAgain(t *testing.T) {
	store, digest, _ := linkedAtLooks(t, looksMax-2)
	point, err := store.Mount(digest)
	must(t, err)
	if text, err := os.ReadFile(filepath.Join(point, "etc/name")); string(text) != "one" || err != nil {
		t.Errorf("content %q, %v", text, err)
	}
}

func TestALayerThatNeverStandsStillIsRefused(t *testing.T) {
	store, digest, looks := linkedAtLooks(t, math.MaxInt)
	if _, err := store.Mount(digest); !errors.Is(err, ErrCorrupt) || *looks != looksMax {
		t.Errorf("%v after %d looks", err, *looks)
	}
}

func TestALayerThatIsNotThereAndANameThatIsNoDigestAreErrors(t *testing.T) {
	store := openTestStore(t, t.TempDir())
	sum := sha256.Sum256(nil)
	if _, err := store.Mount(hex.EncodeToString(sum[:])); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := store.Mount("../../etc/passwd"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("bad name: %v", err)
	}
}

func TestAnOverlayShowsLayersTopFirstAndWritesToTheDisk(t *testing.T) {
	dir := t.TempDir()
	store := openTestStore(t, dir)
	top, err := store.Mount(makeLayer(t, dir, "top"))
	must(t, err)
	bottom, err := store.Mount(makeLayer(t, dir, "bottom"))
	must(t, err)
	disk, target := openTestPool(t).DiskPath(ws, "d0"), t.TempDir()
	must(t, Overlay([]string{top, bottom}, disk, target))
	t.Cleanup(func() { must(t, unix.Unmount(target, 0)) })
	if text, err := os.ReadFile(filepath.Join(target, "etc/name")); string(text) != "top" || err != nil {
		t.Errorf("content %q, %v", text, err)
	}
	must(t, os.WriteFile(filepath.Join(target, "etc/new"), []byte("x"), 0o644))
	if _, err := os.Stat(filepath.Join(disk, "upper/etc/new")); err != nil {
		t.Errorf("the write is not on the disk: %v", err)
	}
	must(t, os.Rename(filepath.Join(target, "etc/sub"), filepath.Join(target, "etc/renamed"))) // EXDEV without redirect_dir
	must(t, os.Remove(filepath.Join(target, "etc/name")))
	var stat unix.Stat_t
	must(t, unix.Lstat(filepath.Join(disk, "upper/etc/name"), &stat))
	if stat.Mode&unix.S_IFMT != unix.S_IFCHR || stat.Rdev != 0 {
		t.Errorf("the whiteout has mode %o", stat.Mode)
	}
}

func TestPathsWithSeparatorsOfOptionsAreEscaped(t *testing.T) {
	odd := filepath.Join(t.TempDir(), `a:b,c\d`)
	for _, sub := range []string{"lower", "disk/upper", "disk/work", "target"} {
		must(t, os.MkdirAll(filepath.Join(odd, sub), 0o700))
	}
	tmp := filepath.Join(odd, "disk")
	must(t, unix.Mount("tmpfs", tmp, "tmpfs", 0, "size=1m")) // an overlay cannot be the upper layer of another
	t.Cleanup(func() { unix.Unmount(tmp, unix.MNT_DETACH) })
	for _, sub := range []string{"upper", "work"} {
		must(t, os.Mkdir(filepath.Join(tmp, sub), 0o700))
	}
	must(t, os.WriteFile(filepath.Join(odd, "lower/f"), []byte("x"), 0o600))
	must(t, Overlay([]string{filepath.Join(odd, "lower")}, tmp, filepath.Join(odd, "target")))
	t.Cleanup(func() { must(t, unix.Unmount(filepath.Join(odd, "target"), 0)) })
	if _, err := os.Stat(filepath.Join(odd, "target/f")); err != nil {
		t.Error(err)
	}
}

func TestAnOverlayOfTwoSubvolumesOfOneBtrfsIsRefused(t *testing.T) {
	p := openTestPool(t)
	must(t, p.CreateDisk(ws, "d1"))
	target, other := t.TempDir(), filepath.Join(p.DiskPath(ws, "d1"), "upper")
	if err := Overlay([]string{other}, p.DiskPath(ws, "d0"), target); !errors.Is(err, ErrTwoSubvolumes) {
		t.Errorf("lower of another subvolume: %v", err)
	}
	if err := Overlay([]string{other, p.WorkspaceDir(ws)}, t.TempDir(), target); err == nil {
		t.Errorf("two lower directories of two subvolumes were accepted")
	}
	bound := t.TempDir()
	must(t, unix.Mount(other, bound, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(bound, 0)) })
	if err := Overlay([]string{bound}, p.DiskPath(ws, "d0"), target); !errors.Is(err, ErrTwoSubvolumes) {
		t.Errorf("the same through a bind mount: %v", err)
	}
	if isOverlay(t, target) {
		t.Errorf("something was mounted")
	}
	same := filepath.Join(p.DiskPath(ws, "d0"), "state")
	must(t, Overlay([]string{same}, p.DiskPath(ws, "d0"), target))
	must(t, unix.Unmount(target, 0))
	second := openTestPool(t)
	must(t, Overlay([]string{other}, second.DiskPath(ws, "d0"), target))
	must(t, unix.Unmount(target, 0))
}

func isOverlay(t *testing.T, path string) bool {
	t.Helper()
	var stat unix.Statfs_t
	must(t, unix.Statfs(path, &stat))
	return int64(stat.Type) == unix.OVERLAYFS_SUPER_MAGIC
}

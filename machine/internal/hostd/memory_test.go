package hostd

import (
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// ballast has every kind of memory that a checkpoint distinguishes, and answers each line of /tmp/ask with a digest.
// `change` first writes untouched pages and clears written ones.
const ballast = `
import hashlib, mmap, os
PAGE = 4096
random = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE)      # every page written
random[:] = os.urandom(len(random))
sparse = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE)     # one byte in every seventh page, at its end in turn
for page in range(0, len(sparse) // PAGE, 7):
    sparse[page * PAGE + (PAGE - 1) * (page % 2)] = 1 + page % 255
zeros = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE)       # written, and zero
zeros[:] = bytes(len(zeros))
zeros[len(zeros) - 1] = 7
gone = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE)        # given back after it was written
gone[:] = os.urandom(len(gone))
gone.madvise(mmap.MADV_DONTNEED)
gone[PAGE] = 9
shared = mmap.mmap(-1, 4 << 20)                        # written by another process
if os.fork() == 0:
    shared[PAGE * 3:PAGE * 5] = os.urandom(PAGE * 2)
    os._exit(0)
os.wait()
def file(path, *places):                               # a file in memory, with holes
    f = open(path, 'w+b')
    for place in places:
        f.seek(place); f.write(os.urandom(5000))
    f.flush()
    return f
held = [file('/tmp/kept', 0, 5 << 20, (32 << 20) - 5000), file('/tmp/deleted', 3 << 20)]
os.remove('/tmp/deleted')
def digest():
    all = hashlib.sha256()
    for part in (random, sparse, zeros, gone, shared):
        all.update(part)
    for f in held:
        f.seek(0); all.update(f.read())
    return all.hexdigest()
def change():
    sparse[PAGE * 7000:PAGE * 7003] = os.urandom(PAGE * 3)
    random[:1 << 20] = bytes(1 << 20)
    gone[PAGE * 100:PAGE * 101] = os.urandom(PAGE)
    held[0].truncate(5 << 20); held[0].truncate(40 << 20)
    held[1].seek(9 << 20); held[1].write(os.urandom(PAGE)); held[1].flush()
os.mkfifo('/tmp/answer'); os.mkfifo('/tmp/ask')
while True:
    with open('/tmp/ask') as f: word = f.read().strip()
    if word == 'change': change()
    with open('/tmp/answer', 'w') as f: f.write(digest())
`

func TestWhateverTheGuestWroteIsThereAfterEachSave(t *testing.T) {
	d := withOthers(t)
	m := d.startMachine(newID(), 1)
	d.begin(m, "ballast", "exec python3 - <<'END'"+ballast+"END\n")
	ask := func(m wire.Machine, word string) string {
		t.Helper()
		digest := d.run(m, "until [ -p /tmp/ask ]; do sleep 0.05; done; echo "+word+" > /tmp/ask; cat /tmp/answer")
		if len(digest) != 64 {
			t.Fatalf("the ballast answers %q: %+v", digest, d.session(m, "ballast"))
		}
		return digest
	}
	written := ask(m, "digest")
	for epoch := int64(2); epoch <= testns.Depth[int64](3, 4); epoch++ { // the second save contains the changes since the first
		id := newID()
		info := d.checkpoint(m, id, "paused")
		if stored := info.SizeBytes; stored < 8<<20 {
			t.Fatalf("8 MiB of random bytes are saved in %d", stored)
		}
		d.stop(m)
		m = d.restore(m.Owner(), id, epoch)
		if after := ask(m, "digest"); after != written {
			t.Fatalf("epoch %d: the guest's memory was %s and is %s", epoch, written, after)
		}
		changed := ask(m, "change")
		if changed == written {
			t.Fatal("the change changed nothing")
		}
		written = changed
	}
	d.stop(m)
}

package guard

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type fakeGuest struct{ endedAll int }

func (*fakeGuest) Own() []int      { return nil }
func (g *fakeGuest) EndAll(string) { g.endedAll++ }

func TestTheLargestGoesFirstAndEverythingWhereThatIsTooLate(t *testing.T) {
	const told = 512 << 20
	for _, c := range []struct {
		name      string
		used      []uint64 // thousandths of the configured memory: at the start and at each poll
		largest   int      // expected kills of the largest process
		endingAll int
	}{
		{"little", []uint64{100, 500, 700}, 0, 0},
		{"full by and by", []uint64{840, 850, 880}, 1, 0},
		{"nearly full at once", []uint64{700, 930}, 1, 0},
		{"fuller, slowly", []uint64{940, 950, 959}, 2, 0},
		{"too full, slowly", []uint64{940, 950, 962}, 1, 1},
		{"too full at once", []uint64{850, 942}, 0, 1},
		{"no growth since everything was ended", []uint64{850, 980, 980, 1000}, 0, 1},
		{"growth since", []uint64{850, 980, 1020}, 0, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			guest := &fakeGuest{}
			g := &Guard{guest: guest, victims: make(chan struct{}, len(c.used))}
			g.SetLimits(told, 0)
			g.used.Store(int64(c.used[0] * told / 1000))
			for _, used := range c.used[1:] {
				g.checkMemory(&unix.Sysinfo_t{Totalram: 2 * told, Freeram: 2*told - used*told/1000, Unit: 1})
			}
			if len(g.victims) != c.largest || guest.endedAll != c.endingAll {
				t.Fatalf("the largest %d times, everything %d times", len(g.victims), guest.endedAll)
			}
		})
	}
}

func TestLooksAreRareWhereNothingHappens(t *testing.T) {
	const told = 512 << 20
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(event)
	g := &Guard{guest: &fakeGuest{}, stir: event}
	g.SetLimits(told, 0)
	look := func(used uint64) time.Duration {
		return g.checkMemory(&unix.Sysinfo_t{Totalram: told, Freeram: told - used, Unit: 1})
	}
	const used = 100 << 20
	calm := func() {
		t.Helper()
		for i := range settledAfter - 1 {
			if every := look(used + uint64(i%2)<<12); every != relaxedEvery {
				t.Fatalf("the next look after %d calm ones is in %s", i, every)
			}
		}
		if every := look(used + 4096); every != settledInterval {
			t.Fatalf("the next look is in %s", every)
		}
	}
	look(used)
	calm()
	if every := look(used + told/100); every != relaxedEvery {
		t.Fatalf("memory grew, and the next look is in %s", every)
	}
	look(used)
	calm()
	g.Wake()
	if n, err := unix.Read(event, make([]byte, 8)); n != 8 {
		t.Fatalf("what was started did not end the wait: %v", err)
	}
	g.Wake()
	if n, _ := unix.Read(event, make([]byte, 8)); n > 0 {
		t.Fatal("looks are frequent already")
	}
	calm()
}

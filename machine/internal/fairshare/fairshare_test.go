package fairshare

import "testing"

func TestEachCallerHasAnEvenPartAndNeverLessThanTheLeast(t *testing.T) {
	s := Shares[int]{Each: 4, Least: 2, Together: 8}
	takes := func(caller int) (taken int) {
		for s.Take(caller) {
			taken++
		}
		return taken
	}
	for caller, want := range []int{4, 4, 2, 2, 2, 2} {
		if got := takes(caller); got != want {
			t.Errorf("caller %d takes %d, and not %d", caller, got, want)
		}
	}
	for range 4 {
		s.Give(0)
	}
	for range 2 {
		s.Give(2)
		s.Give(3)
		s.Give(4)
		s.Give(5)
	}
	if got := takes(0); got != 4 || len(s.held) != 2 {
		t.Errorf("when the others have gone, a caller takes %d of 4, and %d callers are known", got, len(s.held))
	}
}

func TestAllCallersTogetherStayWithinTheirBound(t *testing.T) {
	s := Shares[int]{Each: 4, Least: 2, Together: 8, All: 9}
	taken := 0
	for caller := range 9 {
		for s.Take(caller) {
			taken++
		}
	}
	if taken != 9 || s.Take(9) {
		t.Errorf("all callers have %d of 9, or one more", taken)
	}
	if s.Give(0); !s.Take(9) || s.Take(9) {
		t.Error("a returned place cannot be taken, or can be taken twice")
	}
}

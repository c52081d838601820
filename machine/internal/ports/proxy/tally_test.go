package proxy

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/fakecell"
	"github.com/berth-dev/berth/machine/internal/ports/question"
	"github.com/berth-dev/berth/machine/internal/testns"
)

func (w *world) tallies(enough func(question.Tally) bool) {
	w.t.Helper()
	sum := question.Tally{Connections: -1, Refused: map[string]int64{}}
	late := time.After(testns.Patience(patienceT))
	for !enough(sum) {
		select {
		case <-late:
			w.t.Fatalf("the cell was told no more than %+v", sum)
		case frame := <-w.cell.Frames:
			w.addTally(&sum, frame)
		}
	}
}

func (w *world) addTally(sum *question.Tally, frame fakecell.Frame) {
	w.t.Helper()
	text, has := frame["tally"]
	if !has {
		return
	}
	var one question.Tally
	if err := json.Unmarshal(text, &one); err != nil {
		w.t.Fatal(err)
	}
	sum.Connections, sum.TurnedAway = one.Connections, sum.TurnedAway+one.TurnedAway
	for reason, many := range one.Refused {
		sum.Refused[reason] += many
	}
}

func TestTheCellIsToldOfRefusalsAndOfOpenConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, answering(t, ok).Addr())
	w.exchange("nonsense\r\n\r\n")
	w.exchange("GET / HTTP/1.1\r\nHost: nobody\r\nConnection: close\r\n\r\n")
	w.exchange("GET / HTTP/1.1\r\nHost: " + host + "\r\nX-Service-Token: " + wrong + "\r\nConnection: close\r\n\r\n")
	stays := w.dial()
	w.tallies(func(sum question.Tally) bool {
		return sum.Connections == 1 && sum.Refused["bad_request"] == 1 && sum.Refused["host_unknown"] == 1 && sum.Refused["credential_invalid"] == 1
	})
	stays.Close()
	w.tallies(func(sum question.Tally) bool { return sum.Connections == 0 })
}

func TestTheCellIsToldOfConnectionsThatWereTurnedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, answering(t, ok).Addr(), func(o *Options) { o.Bounds.ConnectionsOfAClient = 1 })
	stays := w.dial()
	defer stays.Close()
	w.tallies(func(sum question.Tally) bool { return sum.Connections == 1 })
	if answer := readAll(w.dial()); answer != "" {
		t.Fatalf("one too many is told %q", answer)
	}
	w.tallies(func(sum question.Tally) bool { return sum.TurnedAway == 1 })
}

func TestWhatWasRefusedWhileTheCellWasAwayIsToldWhenItIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, answering(t, ok).Addr())
	stays := w.dial()
	defer stays.Close()
	w.tallies(func(sum question.Tally) bool { return sum.Connections == 1 })
	w.cell.Stop()
	for w.link.Connected() {
		time.Sleep(time.Millisecond)
	}
	w.exchange("nonsense\r\n\r\n")
	w.cell.Listen(t)
	w.tallies(func(sum question.Tally) bool { return sum.Connections == 1 && sum.Refused["bad_request"] == 1 })
}

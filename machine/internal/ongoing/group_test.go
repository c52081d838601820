package ongoing

import (
	"sync/atomic"
	"testing"
)

func TestWorkMayBeginWhileSomebodyWaitsForAllOfIt(t *testing.T) {
	var g Group
	<-g.Idle()
	var ended atomic.Int32
	begin := make(chan struct{})
	first := make(chan struct{})
	g.Go(func() { <-first; ended.Add(1) })
	idle := g.Idle()
	for range 2 {
		go func() {
			for range 1000 {
				g.Go(func() { ended.Add(1) })
			}
			begin <- struct{}{}
		}()
	}
	<-begin
	<-begin
	select {
	case <-idle:
		t.Fatal("idle while the first works")
	default:
	}
	close(first)
	<-idle
	<-g.Idle()
	if ended.Load() != 2001 {
		t.Fatalf("%d ended", ended.Load())
	}
}

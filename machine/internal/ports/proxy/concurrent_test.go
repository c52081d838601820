package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestVisitorsNeverGetAnothersAnswer(t *testing.T) {
	app := handlerApp(t, func(rw http.ResponseWriter, r *http.Request) {
		if rand.IntN(8) == 0 {
			time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
		}
		fmt.Fprint(rw, r.URL.Path)
	})
	w := newWorld(t, app.Addr(), func(o *Options) { o.Bounds.ConnectionsOfAClient = 1_000 })
	stop := make(chan struct{})
	var cutting, visiting sync.WaitGroup
	cutting.Go(func() {
		for reasons := []string{"machine_moved", "credential_revoked"}; ; {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			w.mu.Lock()
			w.epoch++
			last := len(w.leases)
			w.mu.Unlock()
			if last > 0 {
				w.cell.Cut(w.lease(), reasons[rand.IntN(2)], 503)
			}
		}
	})
	var served, refused sync.Map
	for visitor := range 16 {
		visiting.Go(func() {
			for round := range 60 {
				path := fmt.Sprintf("/%d/%d", visitor, round)
				conn := w.dial()
				r, _ := http.NewRequest(http.MethodGet, "http://"+host+path, nil)
				r.Header.Set("X-Service-Token", token)
				r.Close = true
				_ = r.Write(conn)
				answer := readAll(conn)
				conn.Close()
				switch {
				case status(answer) == "200 OK" && answer[len(answer)-len(path):] == path:
					served.Store(path, true)
				case header(answer, "x-service-reason") != "" || answer == "": // cut, before or during the answer
					refused.Store(path, true)
				default:
					t.Errorf("%s: %q", path, answer)
				}
			}
		})
	}
	visiting.Wait()
	close(stop)
	cutting.Wait()
	count := 0
	served.Range(func(any, any) bool { count++; return true })
	if count == 0 {
		t.Fatal("nobody was served")
	}
	t.Logf("%d served", count)
}

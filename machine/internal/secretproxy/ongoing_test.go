package secretproxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func lastingAnswers() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Header.Get("Upgrade") == "" && r.Context().Err() == nil {
			fmt.Fprintln(w, "more")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
		echoes(w)
	})
}

func lasts(w *world, protocol int, authorization string) (lines *bufio.Reader) {
	if protocol == 0 {
		conn := w.tlsTo(boundHost)
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: %s\r\n\r\n", boundHost, authorization)
		lines = bufio.NewReader(conn)
		must(http.ReadResponse(lines, nil))
		fmt.Fprintln(conn, "more")
		return lines
	}
	request := must(http.NewRequest("GET", w.url("/"), nil))
	request.Header.Set("Authorization", authorization)
	response := must(w.client(protocol).Do(request))
	w.t.Cleanup(func() { response.Body.Close() })
	return bufio.NewReader(response.Body)
}

var lastingKinds = []string{"a WebSocket", "a download over HTTP/1.1", "a download over HTTP/2"}

func TestWhatLastsEndsWithItsBindingAndNotWithARotation(t *testing.T) {
	t.Parallel()
	for protocol, name := range lastingKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, lastingAnswers())
			// A second secret of the same host and port keeps the policy unchanged when the first is rotated.
			other := secret{Name: "OTHER", Placeholder: "berth-secret-other", Value: "other", Hosts: w.secrets[0].Hosts}
			w.set(func() { w.secrets = append(w.secrets, other) })
			ending := lasts(w, protocol, "Bearer "+placeholder)
			going := lasts(w, protocol, "Bearer "+other.Placeholder)
			for _, one := range []*bufio.Reader{ending, going} {
				if got := must(one.ReadString('\n')); got != "more\n" {
					t.Fatal(got)
				}
			}
			w.set(func() { w.secrets[0].Value = "rotated" })
			over := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, ending)
				close(over)
			}()
			select {
			case <-over:
				t.Fatal("a rotation ended it")
			case <-time.After(3 * answerKept):
			}
			w.set(func() { w.secrets = w.secrets[1:] })
			select {
			case <-over:
			case <-time.After(testns.Patience(20 * time.Second)):
				t.Fatal("it goes on without its binding")
			}
			if protocol > 0 {
				if got := must(going.ReadString('\n')); got != "more\n" {
					t.Fatal("what another secret went into ended: " + got)
				}
			}
		})
	}
}

func TestWhatLastsGoesOnWithoutTheCell(t *testing.T) {
	t.Parallel()
	w := open(t, lastingAnswers())
	lines := lasts(w, 0, "Bearer "+placeholder)
	must(lines.ReadString('\n'))
	w.cell.Close()
	over := make(chan error, 1)
	go func() {
		_, err := lines.ReadString('\n')
		over <- err
	}()
	select {
	case err := <-over:
		t.Fatal("it ended: ", err)
	case <-time.After(4 * answerKept):
	}
}

func TestASecretIsUsedWhereItsValueGoesIn(t *testing.T) {
	one := func(at host) placed {
		return placed{secret: secret{Name: "TOKEN", Placeholder: placeholder, Value: value}, at: at}
	}
	for head, want := range map[string]int{"Bearer " + placeholder: 1, "Basic dTpiZXJ0aC1zZWNyZXQtMDEyMzQ1Njc4OQ==": 1, "Bearer theirs": 0} {
		if got := usedIn(http.Header{"Authorization": {head}}, "", []placed{one(host{})}); len(got) != want {
			t.Errorf("%s: %v", head, got)
		}
	}
	for query, want := range map[string]int{"key=" + placeholder: 1, strings.ToUpper("key=" + placeholder): 0} {
		if got := usedIn(nil, query, []placed{one(host{})}); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	if got := usedIn(nil, "", []placed{one(host{Bearer: true})}); len(got) != 1 {
		t.Error("at its place")
	}
}

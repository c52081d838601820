package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func pair(t *testing.T) (c *conn, commands *bufio.Reader, answers *os.File) {
	t.Helper()
	fromAgent, toBrowser, err1 := os.Pipe()
	fromBrowser, answers, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	c = newConn(toBrowser, fromBrowser)
	t.Cleanup(func() { c.close(errClosed); fromAgent.Close(); answers.Close() })
	return c, bufio.NewReader(fromAgent), answers
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestAnAnswerFindsItsCallWhateverStandsBetween(t *testing.T) {
	c, commands, answers := pair(t)
	go func() {
		b, _ := readMessage(commands)
		var m message
		_ = json.Unmarshal(b, &m)
		junk := "not json\x00{}\x00null\x00[]\x00{\"id\":999,\"result\":{}}\x00{\"method\":\"Nobody.listens\"}\x00{\"id\":\"x\"}\x00"
		_, _ = answers.WriteString(junk + `{"id":1,"result":{"value":"` + m.Method + m.SessionID + `"}}` + "\x00")
	}()
	var result struct {
		Value string `json:"value"`
	}
	if err := c.call(deadline(t), "s", "Do.it", values{}, &result); err != nil || result.Value != "Do.its" {
		t.Fatalf("%+v %v", result, err)
	}
}

func TestABrowserThatRefusesLiesOrEnds(t *testing.T) {
	for say, check := range map[string]func(error) bool{
		`{"id":1,"error":{"message":"no"}}` + "\x00": func(err error) bool { return errors.As(err, new(refusedError)) },
		`{"id":1,"result":[]}` + "\x00":              func(err error) bool { return err != nil },
		`{"id":1`:                                    func(err error) bool { return errors.Is(err, errClosed) },
	} {
		c, commands, answers := pair(t)
		go func() {
			_, _ = readMessage(commands)
			_, _ = answers.WriteString(say)
			answers.Close()
		}()
		err := c.call(deadline(t), "", "Do.it", values{}, &struct{}{})
		if !check(err) {
			t.Errorf("%q: %v", say, err)
		}
	}
}

func TestAMessageWithoutEndIsCutOffAtTheBound(t *testing.T) {
	_, err := readMessage(bufio.NewReader(bytes.NewReader(make([]byte, 0))))
	if err == nil {
		t.Fatal("nothing is a message")
	}
	_, err = readMessage(bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", messageBytesMax+2)), 64<<10))
	if !errors.Is(err, errTooLarge) {
		t.Fatal(err)
	}
}

func TestTheNewestDocumentIsTheOneThatIsWaitedFor(t *testing.T) {
	p := &page{frame: "f", changed: make(chan struct{}, 1)}
	event := func(frame, loader, name string) {
		b, _ := json.Marshal(map[string]string{"frameId": frame, "loaderId": loader, "name": name})
		p.handleEvent("Page.lifecycleEvent", b)
	}
	event("f", "blank", "load")
	event("other", "asked", "load")
	if p.isLoaded("asked", "load") {
		t.Fatal("a frame inside is not the page")
	}
	event("f", "asked", "init")
	event("f", "asked", "load")
	if !p.isLoaded("asked", "load") || p.isLoaded("asked", "networkIdle") {
		t.Fatal("the page has loaded")
	}
	event("f", "next", "init")
	if p.isLoaded("asked", "load") {
		t.Fatal("the page has led on to another")
	}
	event("f", "next", "load")
	if !p.isLoaded("asked", "load") {
		t.Fatal("the other has loaded")
	}
	for i := range 1000 { // a page that redirects forever
		event("f", strings.Repeat("x", i+1), "init")
	}
	if len(p.loaders) != loadersMax {
		t.Fatalf("%d documents are kept", len(p.loaders))
	}
}

func TestOnlyHTTPIsVisited(t *testing.T) {
	good := wire.BrowserRequest{URL: "https://a/", Width: 1, Height: 1, WaitUntil: "load", TimeoutMS: 1}
	if err := check(good); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"file:///etc/passwd", "FILE:///x", "chrome://x", "view-source:http://a", "javascript:1", "data:,", ""} {
		bad := good
		bad.URL = url
		if check(bad) == nil {
			t.Errorf("%q is visited", url)
		}
	}
	for _, bad := range []func(*wire.BrowserRequest){
		func(r *wire.BrowserRequest) { r.Width = 0 }, func(r *wire.BrowserRequest) { r.Height = 1 << 20 },
		func(r *wire.BrowserRequest) { r.WaitUntil = "" }, func(r *wire.BrowserRequest) { r.Format = "pdf" },
		func(r *wire.BrowserRequest) { r.TimeoutMS = 0 }, func(r *wire.BrowserRequest) { r.WaitMS = -1 },
	} {
		request := good
		bad(&request)
		if check(request) == nil {
			t.Errorf("%+v is accepted", request)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte(`{"sessionId":"s","method":"Page.lifecycleEvent","params":{"frameId":"f","loaderId":"l","name":"load"}}`))
	f.Add([]byte(`{"id":1,"result":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &conn{closed: make(chan struct{}), calls: map[int64]chan message{}, sessions: map[string]func(string, json.RawMessage){}}
		p := &page{conn: c, frame: "f", session: "s", changed: make(chan struct{}, 1)}
		c.listen("s", func(method string, params json.RawMessage) {
			if method != "Page.javascriptDialogOpening" { // the page would answer a dialog by a write to the browser, which is missing here
				p.handleEvent(method, params)
			}
		})
		c.calls[1] = make(chan message, 1)
		var m message
		if json.Unmarshal(b, &m) == nil {
			c.deliver(m)
		}
	})
}

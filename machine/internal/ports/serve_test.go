package ports

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/ports/fakecell"
	"github.com/berth-dev/berth/machine/internal/testns"
)

const (
	host     = "3000-agnlulephz6udhcvaerukz4jvm.ports.test"
	asPortd  = "BERTH_TEST_PORTD" // this binary is portd then
	patience = 60 * time.Second
)

var token = "sfp_" + strings.Repeat("t", 43)

func TestMain(m *testing.M) {
	if os.Getenv(asPortd) == "" {
		os.Exit(m.Run())
	}
	if err := Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type process struct {
	*exec.Cmd
	address string
	config  string
}

func startProcess(t *testing.T, config map[string]any) *process {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "--config", path)
	command.Env = append(os.Environ(), asPortd+"=1")
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, rest, found := strings.Cut(lines.Text(), "listen="); found {
			address, _, _ := strings.Cut(rest, " ")
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return &process{command, address, path}
		}
	}
	t.Fatal("portd ended with ", command.Wait())
	return nil
}

func get(address string) (*http.Response, error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
	if err != nil {
		return nil, err
	}
	request.Host = host
	request.Header.Set("Authorization", "Bearer "+token)
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
}

func endless(t *testing.T) netip.AddrPort {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for piece := bytes.Repeat([]byte("x"), 1000); r.Context().Err() == nil; {
				_, _ = w.Write(piece)
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Millisecond)
			}
		}))
	}()
	return netip.MustParseAddrPort(listener.Addr().String())
}

func settings(t *testing.T, listen string) (map[string]any, *fakecell.Cell) {
	app := endless(t)
	var cell *fakecell.Cell
	cell = fakecell.Start(t, func(fakecell.Ask) any {
		return fakecell.Grant{Lease: cell.NewLease(), Address: app.Addr().String(), Port: int(app.Port()), WorkspaceID: "w", Epoch: 1}
	})
	return map[string]any{"listen": listen, "port_host": "ports.test", "public_scheme": "http", "socket": cell.Socket, "certificate": "", "key": "",
		"trusted_proxies": []string{}, "drain_seconds": 1}, cell
}

func TestAKillInTheMiddleOfAStreamCutsItAndTheNextProcessServesAtOnce(t *testing.T) {
	config, _ := settings(t, "127.0.0.1:0")
	first := startProcess(t, config)
	response, err := get(first.address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.ReadFull(response.Body, make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	_ = first.Process.Kill()
	if _, err := io.Copy(io.Discard, response.Body); err == nil {
		t.Fatal("a stream that was cut ended as if it were whole")
	}
	_ = first.Wait()
	config["listen"] = first.address
	begun := time.Now()
	second := startProcess(t, config)
	again, err := get(second.address)
	if err != nil || again.StatusCode != http.StatusOK {
		t.Fatal(err, again)
	}
	again.Body.Close()
	t.Logf("served after %s", time.Since(begun))
}

func TestATermLetsStreamsGoOnForAWhileAndTellsTheCellWhatWasSent(t *testing.T) {
	config, cell := settings(t, "127.0.0.1:0")
	portd := startProcess(t, config)
	response, err := get(portd.address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_ = portd.Process.Signal(syscall.SIGTERM)
	for { // until it stops listening
		conn, err := net.Dial("tcp", portd.address)
		if err != nil {
			break
		}
		conn.Close()
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 10_000)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	if err := portd.Wait(); err != nil {
		t.Fatal(err)
	}
	var sent int64
	for late := time.After(testns.Patience(patience)); sent < 10_000; {
		select {
		case frame := <-cell.Frames:
			var count struct {
				SentBytes int64 `json:"sent_bytes"`
			}
			if text, found := frame["count"]; found && json.Unmarshal(text, &count) == nil {
				sent += count.SentBytes
			}
		case <-late:
			t.Fatal("the cell was told of ", sent)
		}
	}
}

func TestSettingsThatAreNoneAreRefused(t *testing.T) {
	for name, value := range map[string]any{
		"listen": "nowhere", "port_host": "UPPER.test", "public_scheme": "ftp", "socket": "relative", "certificate": "/only/one", "drain_seconds": 0,
		"trusted_proxies": []string{"x"}, "unknown": 1,
	} {
		config, _ := settings(t, "127.0.0.1:0")
		config[name] = value
		text, _ := json.Marshal(config)
		path := filepath.Join(t.TempDir(), "config")
		_ = os.WriteFile(path, text, 0o600)
		if _, err := ReadConfig(path); err == nil {
			t.Errorf("%s: %v is taken", name, value)
		}
	}
	if err := Main(nil); !errors.Is(err, errUsage) {
		t.Fatal(err)
	}
}

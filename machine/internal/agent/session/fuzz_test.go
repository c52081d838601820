package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/machine/internal/agent/record"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func FuzzWhatPassesTheDoorCanBeStarted(f *testing.F) {
	f.Add([]byte(`{"session_id":"a","fingerprint":"f","argv":["true"],"cwd":"/","user":"me","env":{"A":"1"},"stdin_base64":"aGk="}`))
	f.Add([]byte(`{"session_id":"a/b","argv":["\u0000"],"cwd":"x","env":{"A=B":""},"timeout_ms":-1,"kill_grace_ms":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var req wire.ExecRequest
		if json.Unmarshal(body, &req) != nil {
			return
		}
		c, err := check(req)
		if err != nil {
			return
		}
		all := append([]string{c.Cwd, c.SessionID}, c.Argv...)
		for name, value := range c.Env {
			if name == "" || strings.Contains(name, "=") {
				t.Fatalf("env %q", name)
			}
			all = append(all, name, value)
		}
		for _, s := range all {
			if strings.ContainsRune(s, 0) {
				t.Fatalf("%q holds NUL", s)
			}
		}
		if len(c.Argv) == 0 || c.Cwd[0] != '/' || len(c.stdin) > stdinBytesMax || c.timeout < 0 || c.grace <= 0 || c.StdinBase64 != "" {
			t.Fatalf("%+v", c)
		}
		if strings.ContainsAny(c.SessionID, "/\x00") || len(dirName(c.SessionID)) != 64 {
			t.Fatalf("id %q", c.SessionID)
		}
	})
}

func FuzzARecordIsReadToItsLastWholeLine(f *testing.F) {
	f.Add([]byte("{\"fingerprint\":\"f\",\"record\":{\"session_id\":\"a\",\"state\":\"starting\"}}\n{\"record\":{\"state\":\"exi"))
	f.Add([]byte("{\"record\":{\"session_id\":\"a\",\"state\":\"exited\",\"exit_code\":0}}\n"))
	f.Add([]byte{0xff, '\n'})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(dir+recordSuffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := readRecord(dir, "a")
		if err != nil || e.Record.State == "" || e.Record.State == record.Starting {
			t.Fatalf("%+v %v", e, err)
		}
	})
}

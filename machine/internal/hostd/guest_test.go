package hostd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
	"github.com/berth-dev/berth/machine/internal/wire"
)

func (d *daemon) guest(m wire.Machine, method, path string, body any, within time.Duration) []byte {
	d.t.Helper()
	text, err := json.Marshal(body)
	must(d.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+m.Address+path, bytes.NewReader(text))
	must(d.t, err)
	request.Header.Set("Authorization", "Bearer "+m.AgentKey)
	request.Header.Set("X-Berth-Epoch", fmt.Sprint(m.Epoch))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	return answer
}

const patient = 90 * time.Second

func (d *daemon) begin(m wire.Machine, id, script string) {
	d.t.Helper()
	request := wire.ExecRequest{SessionID: id, Fingerprint: "f", Argv: []string{"sh", "-c", script}, Cwd: "/", User: "root", Env: map[string]string{}}
	answer := d.guest(m, "POST", "/exec", request, testns.Patience(patient))
	if !bytes.Contains(answer, []byte(`"state"`)) {
		d.t.Fatalf("the agent answered %q", answer)
	}
}

func (d *daemon) session(m wire.Machine, id string) wire.ExecRecord {
	d.t.Helper()
	var record wire.ExecRecord
	answer := d.guest(m, "GET", "/exec/"+id, nil, testns.Patience(patient))
	if err := json.Unmarshal(answer, &record); err != nil {
		d.t.Fatalf("session %s: %q", id, answer)
	}
	return record
}

func (d *daemon) run(m wire.Machine, script string) string {
	d.t.Helper()
	id := "r-" + newID()
	d.begin(m, id, script)
	frames := d.guest(m, "GET", "/exec/"+id+"/output?stdout_offset=0&stderr_offset=0&follow=true", nil, testns.Patience(patient))
	var output []byte
	for len(frames) >= wire.FrameHeader {
		size := int(frames[4])<<24 | int(frames[5])<<16 | int(frames[6])<<8 | int(frames[7])
		if len(frames) < wire.FrameHeader+size {
			break
		}
		if frames[0] == wire.FrameStdout {
			output = append(output, frames[wire.FrameHeader:wire.FrameHeader+size]...)
		}
		frames = frames[wire.FrameHeader+size:]
	}
	return strings.TrimSpace(string(output))
}

func (d *daemon) counts(m wire.Machine, after int64) int64 {
	d.t.Helper()
	var last int64
	for deadline := time.Now().Add(testns.Patience(patient)); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		record := d.session(m, "counter")
		if record.State != "running" {
			text, _ := json.Marshal(record)
			d.t.Fatalf("the counter ended: %s", text)
		}
		if last != 0 && record.StdoutBytes > last && record.StdoutBytes > after {
			return record.StdoutBytes
		}
		last = record.StdoutBytes
	}
	d.t.Fatalf("the counter stands still at %d", last)
	return 0
}

const counter = "i=0; while :; do i=$((i+1)); echo $i; echo $i > /home/count; sleep 0.05; done"

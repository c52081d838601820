package slottest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/machine/internal/wire"
)

var client = &http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

func (s *slot) request(method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequest(method, fmt.Sprintf("http://%s:%d%s", s.address, wire.AgentPort, path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	r.Header.Set("X-Berth-Epoch", strconv.FormatInt(s.epoch, 10))
	return client.Do(r)
}

func (s *slot) try(method, path string, body []byte) (int, []byte, error) {
	answer, err := s.request(method, path, body)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, b, err
}

func (s *slot) expect(status int, method, path string, body, result any) {
	s.t.Helper()
	raw, isRaw := body.([]byte)
	if !isRaw && body != nil {
		var err error
		raw, err = json.Marshal(body)
		must(s.t, err)
	}
	got, answer, err := s.try(method, path, raw)
	must(s.t, err)
	if got != status {
		s.t.Fatalf("%s %s: status %d, expected %d: %s", method, path, got, status, answer)
	}
	if result != nil {
		must(s.t, json.Unmarshal(answer, result))
	}
}

var sessions atomic.Int32

func (s *slot) exec(req wire.ExecRequest) string {
	s.t.Helper()
	if req.SessionID == "" {
		req.SessionID = fmt.Sprintf("s%d", sessions.Add(1))
	}
	req.Fingerprint = "f"
	if req.Cwd == "" {
		req.Cwd = "/"
	}
	s.expect(201, "POST", "/exec", req, nil)
	return req.SessionID
}

type output struct {
	stdout, stderr string
	record         wire.ExecRecord
	refusal        *wire.AgentError
}

func (s *slot) follow(id, query string) output {
	s.t.Helper()
	answer, err := s.request("GET", "/exec/"+id+"/output"+query, nil)
	must(s.t, err)
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		b, _ := io.ReadAll(answer.Body)
		s.t.Fatalf("output: %d %s", answer.StatusCode, b)
	}
	o, err := readFrames(answer.Body)
	must(s.t, err)
	return o
}

func readFrames(r io.Reader) (o output, err error) {
	var header [wire.FrameHeader]byte
	for {
		if _, err := io.ReadFull(r, header[:]); err == io.EOF {
			return o, nil
		} else if err != nil {
			return o, err
		}
		data := make([]byte, binary.BigEndian.Uint32(header[4:]))
		if _, err := io.ReadFull(r, data); err != nil {
			return o, err
		}
		switch header[0] {
		case wire.FrameStdout:
			o.stdout += string(data)
		case wire.FrameStderr:
			o.stderr += string(data)
		case wire.FrameExit:
			return o, json.Unmarshal(data, &o.record)
		case wire.FrameError:
			return o, json.Unmarshal(data, &o.refusal)
		}
	}
}

func (s *slot) sh(user, line string) output {
	s.t.Helper()
	return s.follow(s.exec(wire.ExecRequest{Argv: []string{"/bin/sh", "-c", line}, User: user}), "")
}

func (s *slot) await(id string) (r wire.ExecRecord) {
	s.t.Helper()
	for r.State == "" || r.State == "running" {
		s.expect(200, "GET", "/exec/"+id, nil, &r)
		offsets := fmt.Sprintf("?stdout_offset=%d&stderr_offset=%d", r.StdoutBytes, r.StderrBytes)
		s.follow(id, offsets)
	}
	return r
}

func (s *slot) awaitOutput(id string) {
	s.t.Helper()
	answer, err := s.request("GET", "/exec/"+id+"/output", nil)
	must(s.t, err)
	defer answer.Body.Close()
	_, err = io.ReadFull(answer.Body, make([]byte, wire.FrameHeader))
	must(s.t, err)
}

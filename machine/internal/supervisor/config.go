// Package supervisor starts, restarts and adopts the processes of one installation, and ends them in reverse order.
// Machines are not its children and outlive it.
package supervisor

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Config comes from the preparing command.
type Config struct {
	Instance string  `json:"instance"`
	RunDir   string  `json:"run_dir"`
	LogDir   string  `json:"log_dir"`
	Mounts   []Mount `json:"mounts"`
	Children []Child `json:"children"`
	// A text file, printed and removed when everything is ready.
	Announcement string `json:"announcement"`
	ShowLogs     bool   `json:"show_logs,omitempty"`
}

// Mount gives unprivileged children a read-only clone, which may lie below a home that they may not enter.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Child starts with its stage, when the previous stage is ready.
type Child struct {
	Name  string `json:"name"`
	Stage int    `json:"stage"`
	// The child ends before the next stage.
	Once bool     `json:"once,omitempty"`
	Argv []string `json:"argv"`
	Dir  string   `json:"dir"`
	Env  []string `json:"env"`
	// A failpoint that kills its process must not hit the next one.
	FirstEnv     []string `json:"first_env,omitempty"`
	UID          uint32   `json:"uid"`
	GID          uint32   `json:"gid"`
	Ready        Ready    `json:"ready"`
	StopSignal   string   `json:"stop_signal"`
	StopSeconds  int      `json:"stop_seconds"`
	StartSeconds int      `json:"start_seconds"`
	// Version is of the input files. A running child of another version is replaced.
	Version string `json:"version"`
}

// Ready: connections at Unix, or 200 at Path there or at TCP.
type Ready struct {
	Unix string `json:"unix,omitempty"`
	TCP  string `json:"tcp,omitempty"`
	Path string `json:"path,omitempty"`
}

// ReadConfig refuses unknown fields.
func ReadConfig(text []byte) (Config, error) {
	var config Config
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return config, fmt.Errorf("the supervisor's configuration: %w", err)
	}
	return config, config.check()
}

func (c Config) check() error {
	var wrong []error
	expect := func(ok bool, message string) {
		if !ok {
			wrong = append(wrong, errors.New(message))
		}
	}
	expect(filepath.IsAbs(c.RunDir) && filepath.IsAbs(c.LogDir), "run_dir and log_dir are absolute paths")
	names := map[string]bool{}
	for _, child := range c.Children {
		expect(child.Name != "" && filepath.Base(child.Name) == child.Name && !names[child.Name], "children have names of their own")
		expect(len(child.Argv) > 0 && filepath.IsAbs(child.Argv[0]), child.Name+": argv starts with an absolute path")
		expect(child.StopSeconds > 0 && child.StartSeconds > 0, child.Name+": stop_seconds and start_seconds are needed")
		expect(unix.SignalNum(child.StopSignal) != 0, child.Name+": stop_signal is the name of a signal")
		names[child.Name] = true
	}
	return errors.Join(wrong...)
}

func (c Child) stopSignal() syscall.Signal { return unix.SignalNum(c.StopSignal) }

// A running child with the same one is adopted.
func (c Child) fingerprint() string {
	c.FirstEnv = nil
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // cannot fail: only strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

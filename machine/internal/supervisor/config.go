// Package supervisor starts, restarts and adopts the processes of one installation, and ends them in reverse order.
// Machines are not its children and run on when it ends.
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

// Config is what the preparing command prints.
type Config struct {
	Instance string  `json:"instance"`
	RunDir   string  `json:"run_dir"`
	LogDir   string  `json:"log_dir"`
	Mounts   []Mount `json:"mounts"`
	Children []Child `json:"children"`
	// Announcement is a text file that is printed and removed when everything is ready.
	Announcement string `json:"announcement"`
	ShowLogs     bool   `json:"show_logs,omitempty"`
}

// Mount is a read-only copy of a directory for unprivileged children. The source may be below a home directory that
// they may not enter.
type Mount struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Child is a process. It starts with its stage, when all children of the previous stage are ready.
type Child struct {
	Name  string `json:"name"`
	Stage int    `json:"stage"`
	// Once means that the child must end before the next stage starts.
	Once bool     `json:"once,omitempty"`
	Argv []string `json:"argv"`
	Dir  string   `json:"dir"`
	Env  []string `json:"env"`
	// FirstEnv is set only for the first process: a failpoint that kills its process must not kill the next one.
	FirstEnv     []string `json:"first_env,omitempty"`
	UID          uint32   `json:"uid"`
	GID          uint32   `json:"gid"`
	Ready        Ready    `json:"ready"`
	StopSignal   string   `json:"stop_signal"`
	StopSeconds  int      `json:"stop_seconds"`
	StartSeconds int      `json:"start_seconds"`
	// Version identifies the input files. A running child with another version is replaced.
	Version string `json:"version"`
}

// Ready is when a child is ready: it accepts connections at Unix, or answers 200 to Path at Unix or TCP.
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

// fingerprint identifies the configuration. A running child with the same fingerprint is adopted.
func (c Child) fingerprint() string {
	c.FirstEnv = nil
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // impossible, because all fields are strings and numbers
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

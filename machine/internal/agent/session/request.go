package session

import (
	"encoding/base64"
	"regexp"
	"sort"
	"strings"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	stdinBytesMax = wire.StdinBytesMax
	argumentsMax  = 8192
	graceDefault  = 5 * time.Second
	durationMax   = 365 * 24 * time.Hour
	pathDefault   = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

var sessionIDPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

type checked struct {
	wire.ExecRequest
	stdin          []byte
	timeout, grace time.Duration
}

func check(req wire.ExecRequest) (*checked, error) {
	c := &checked{ExecRequest: req}
	if !sessionIDPattern.MatchString(req.SessionID) {
		return nil, fail.Invalid("invalid_session_id", "session_id is 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	}
	if c.Cwd == "" {
		c.Cwd = "/home/user"
	}
	if !strings.HasPrefix(c.Cwd, "/") || strings.ContainsRune(c.Cwd, 0) || len(c.Cwd) > 4096 {
		return nil, fail.Invalid("invalid_cwd", "cwd is an absolute path")
	}
	if err := checkArguments(req); err != nil {
		return nil, err
	}
	if len(req.StdinBase64) > base64.StdEncoding.EncodedLen(stdinBytesMax) {
		return nil, fail.TooLarge("stdin is too large", stdinBytesMax)
	}
	stdin, err := base64.StdEncoding.DecodeString(req.StdinBase64)
	if err != nil {
		return nil, fail.Invalid("invalid_stdin", "stdin_base64 is not base64")
	}
	if len(stdin) > stdinBytesMax {
		return nil, fail.TooLarge("stdin is too large", stdinBytesMax)
	}
	c.stdin = stdin
	c.StdinBase64 = ""
	return c, c.setDurations()
}

func checkArguments(req wire.ExecRequest) error {
	if len(req.Argv) == 0 || len(req.Argv) > argumentsMax || len(req.Env) > argumentsMax {
		return fail.Invalid("invalid_argv", "argv holds 1 to 8192 strings, env as many names at most")
	}
	for _, a := range req.Argv {
		if strings.ContainsRune(a, 0) {
			return fail.Invalid("invalid_argv", "argv holds a NUL")
		}
	}
	for name, value := range req.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return fail.Invalid("invalid_env", "env holds an impossible name or a NUL")
		}
	}
	return nil
}

func (c *checked) setDurations() error {
	if c.TimeoutMS < 0 || c.KillGraceMS < 0 ||
		c.TimeoutMS > durationMax.Milliseconds() || c.KillGraceMS > durationMax.Milliseconds() {
		return fail.Invalid("invalid_timeout", "timeout_ms and kill_grace_ms are 0 to one year")
	}
	c.timeout = time.Duration(c.TimeoutMS) * time.Millisecond
	c.grace = graceDefault
	if c.KillGraceMS > 0 {
		c.grace = time.Duration(c.KillGraceMS) * time.Millisecond
	}
	return nil
}

func environment(user guestroot.User, env map[string]string) (list []string, path string) {
	shell := user.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	all := map[string]string{
		"HOME": user.Home, "USER": user.Name, "LOGNAME": user.Name, "SHELL": shell,
		"PATH": pathDefault, "LANG": "C.UTF-8",
	}
	for name, value := range env {
		all[name] = value
	}
	for name, value := range all {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list, all["PATH"]
}

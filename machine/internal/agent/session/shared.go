package session

import (
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Check returns a valid request with its defaults.
func Check(req wire.ExecRequest) (wire.ExecRequest, error) {
	c, err := check(req)
	if err != nil {
		return req, err
	}
	return c.ExecRequest, nil
}

// Environment returns a login's variables, overridden by env, and the resulting PATH.
func Environment(user guestroot.User, env map[string]string) (list []string, path string) {
	return environment(user, env)
}

// Explain returns the reason of a failed start as text.
func Explain(err error, req wire.ExecRequest) string { return explain(err, &checked{ExecRequest: req}) }

func DirName(sessionID string) string { return dirName(sessionID) }

package session

import (
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Functions shared by commands and terminals.

// Check validates a request and fills in defaults.
func Check(req wire.ExecRequest) (wire.ExecRequest, error) {
	c, err := check(req)
	if err != nil {
		return req, err
	}
	return c.ExecRequest, nil
}

// Environment merges the request's variables over those of a login, and returns the resulting PATH too.
func Environment(user guestroot.User, env map[string]string) (list []string, path string) {
	return environment(user, env)
}

// Explain returns a sentence on why a command did not start.
func Explain(err error, req wire.ExecRequest) string { return explain(err, &checked{ExecRequest: req}) }

func DirName(sessionID string) string { return dirName(sessionID) }

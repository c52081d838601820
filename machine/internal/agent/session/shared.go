package session

import (
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// What commands and terminals have in common.

// Check refuses a command that could not be one, and fills in what was left out.
func Check(req wire.ExecRequest) (wire.ExecRequest, error) {
	c, err := check(req)
	if err != nil {
		return req, err
	}
	return c.ExecRequest, nil
}

// Environment lays the request's part over what any login would have. It also returns the PATH that results.
func Environment(user guestroot.User, env map[string]string) (list []string, path string) {
	return environment(user, env)
}

// Explain says in a sentence why a command did not start.
func Explain(err error, req wire.ExecRequest) string { return explain(err, &checked{ExecRequest: req}) }

// DirName is where a session of this id lives.
func DirName(sessionID string) string { return dirName(sessionID) }

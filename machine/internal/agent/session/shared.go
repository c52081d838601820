package session

import (
	"github.com/berth-dev/berth/machine/internal/agent/guestroot"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// Check fills in defaults.
func Check(req wire.ExecRequest) (wire.ExecRequest, error) {
	c, err := check(req)
	if err != nil {
		return req, err
	}
	return c.ExecRequest, nil
}

// Environment merges env over a login's variables.
func Environment(user guestroot.User, env map[string]string) (list []string, path string) {
	return environment(user, env)
}

// Explain tells why a start failed.
func Explain(err error, req wire.ExecRequest) string { return explain(err, &checked{ExecRequest: req}) }

func DirName(sessionID string) string { return dirName(sessionID) }

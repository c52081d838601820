package hostd

import (
	"errors"
	"testing"
)

func TestTheFileThatASaveFailsAtIsNamedByTheGuestsPath(t *testing.T) {
	for text, path := range map[string]string{
		`containerManager.Checkpoint: deleted file "claim/root/home/user/big": files that are open and deleted hold more`: "/home/user/big",
		`gofer.dentry("claim/root/tmp/a \"b\"").prepareSaveDead: only deleted dentries for regular files`:                 `/tmp/a "b"`,
		`deleted file "elsewhere/x": no`:      "",
		`the connection to the sandbox broke`: "",
	} {
		if found := obstacleOf(errors.New(text)); found != path {
			t.Errorf("%s: %q, not %q", text, found, path)
		}
	}
}

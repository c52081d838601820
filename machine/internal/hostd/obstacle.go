package hostd

import (
	"regexp"
	"strconv"
	"strings"
)

// The engine's error contains the file that it cannot save, as a path below the sandbox's root.
var obstacles = regexp.MustCompile(`(?:deleted file |gofer\.dentry\()("(?:[^"\\]|\\.)*")`)

const guestRoot = "claim/root"

// obstacleOf returns the guest's path of the file at which a save failed, or "" if the error names none.
func obstacleOf(err error) string {
	found := obstacles.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	path, err := strconv.Unquote(found[1])
	if err != nil {
		return ""
	}
	_, inGuest, ok := strings.Cut(path, guestRoot)
	if !ok {
		return ""
	}
	return strings.ToValidUTF8(inGuest, "\ufffd")
}

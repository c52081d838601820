package git

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/helper"
)

// The messages are English, because LC_ALL is set. The first cause whose text occurs in the output is reported.
var causes = []struct {
	said   string
	refuse func(message string) *fail.Error
}{
	{"not a git repository", conflict("not_a_repository")},
	{"must be run in a work tree", conflict("not_a_repository")},
	{"detected dubious ownership", conflict("not_a_repository")},
	{"already exists and is not an empty directory", conflict("already_exists")},
	{"nothing to commit", conflict("nothing_to_commit")},
	{"nothing added to commit", conflict("nothing_to_commit")},
	{"no changes added to commit", conflict("nothing_to_commit")},
	{"did not match any files", func(m string) *fail.Error { return fail.NotFound("path_not_found", m) }},
	{"is outside repository", func(m string) *fail.Error { return fail.Invalid("invalid_path", m) }},
	{"Please tell me who you are", func(string) *fail.Error {
		return fail.Invalid("", "The workspace has no user.name and user.email: give an author")
	}},
	{"Authentication failed", conflict("git_authentication_failed")},
	{"could not read Username", conflict("git_authentication_failed")},
	{"could not read Password", conflict("git_authentication_failed")},
	{"The requested URL returned error: 401", conflict("git_authentication_failed")},
	{"The requested URL returned error: 403", conflict("git_authentication_failed")},
	{"No space left on device", func(m string) *fail.Error { return fail.RateLimited("disk_full", m) }},
	{"Disk quota exceeded", func(m string) *fail.Error { return fail.RateLimited("disk_full", m) }},
}

func conflict(reason string) func(string) *fail.Error {
	return func(message string) *fail.Error { return fail.Conflict(reason, message) }
}

func refusal(result helper.Result) error {
	said := strings.ToValidUTF8(string(result.Stderr)+string(result.Stdout), "\uFFFD")
	shown := strings.TrimSpace(said)
	if len(shown) > shownBytesMax {
		shown = strings.ToValidUTF8(shown[:shownBytesMax], "")
	}
	for _, cause := range causes {
		if strings.Contains(said, cause.said) {
			return cause.refuse(messageOf(said)).With("output", shown)
		}
	}
	return fail.Conflict("git_failed", messageOf(said)).With("exit_code", result.ExitCode).With("output", shown)
}

func messageOf(said string) string {
	for _, prefix := range []string{"fatal: ", "error: ", ""} {
		for _, line := range strings.Split(said, "\n") {
			if rest, found := strings.CutPrefix(line, prefix); found && strings.TrimSpace(rest) != "" {
				return fmt.Sprintf("git: %.300s", strings.TrimSpace(rest))
			}
		}
	}
	return "git failed without a word"
}

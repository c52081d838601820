// Package git runs the guest's own git, as the guest's user and under its network policy. A guest can forge the
// results, but only for its own workspace.
package git

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/helper"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	statusBytesMax = 4 << 20
	outputBytesMax = 64 << 10
	stderrBytesMax = 16 << 10
	shownBytesMax  = 2000 // of git's output in an error
	timeoutMax     = 10 * time.Minute
)

type Git struct {
	Runner *helper.Runner
	User   string
}

type job struct {
	git Git
	ctx context.Context
	req wire.GitRequest
	env map[string]string
}

func (g Git) begin(ctx context.Context, req wire.GitRequest, settings ...setting) (*job, context.CancelFunc) {
	timeout := time.Duration(req.TimeoutMS) * time.Millisecond
	if timeout <= 0 || timeout > timeoutMax {
		timeout = timeoutMax
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	return &job{git: g, ctx: ctx, req: req, env: environment(req.Env, settings)}, cancel
}

type setting struct{ name, value string }

// With these settings git runs no program of the repository, never prompts, and continues nothing in the background.
var always = []setting{
	{"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}, {"core.pager", "cat"}, {"core.editor", "false"},
	{"submodule.recurse", "false"}, {"fetch.recurseSubmodules", "false"}, {"commit.gpgSign", "false"}, {"gc.auto", "0"},
	{"maintenance.auto", "false"}, {"color.ui", "false"},
}

// Only these GIT_ variables of a caller are passed on. Others could redirect git or log its headers.
var passed = []string{"GIT_SSL_", "GIT_HTTP_", "GIT_AUTHOR_", "GIT_COMMITTER_"}

// environment passes settings by GIT_CONFIG_COUNT, so credentials are in no arguments and files.
func environment(from map[string]string, settings []setting) map[string]string {
	env := map[string]string{}
	for name, value := range from {
		if !strings.HasPrefix(name, "GIT_") || hasAnyPrefix(name, passed) {
			env[name] = value
		}
	}
	for i, s := range append(append([]setting{}, always...), settings...) {
		env["GIT_CONFIG_KEY_"+strconv.Itoa(i)], env["GIT_CONFIG_VALUE_"+strconv.Itoa(i)] = s.name, s.value
		env["GIT_CONFIG_COUNT"] = strconv.Itoa(i + 1)
	}
	for name, value := range map[string]string{
		"GIT_ALLOW_PROTOCOL": "https", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "", "GIT_LITERAL_PATHSPECS": "1",
		"LC_ALL": "C.UTF-8", "LANGUAGE": "",
	} {
		env[name] = value
	}
	return env
}

func hasAnyPrefix(name string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func (j *job) run(cwd string, stdin []byte, stdoutMax int, arguments ...string) (helper.Result, error) {
	result, err := j.git.Runner.Run(j.ctx, helper.Command{
		User: j.git.User, Argv: append([]string{"git"}, arguments...), Env: j.env, Cwd: cwd, Stdin: stdin,
		StdoutMax: stdoutMax, StderrMax: stderrBytesMax,
	})
	switch {
	case errors.Is(err, helper.ErrMissing):
		return result, fail.Conflict("guest_feature_unavailable", "The workspace has no git").With("feature", "git")
	case errors.Is(err, context.DeadlineExceeded):
		return result, fail.Timeout("git did not finish in time and was ended")
	}
	return result, err
}

func (g Git) Clone(ctx context.Context, req wire.GitCloneRequest) (wire.GitHead, error) {
	credentials, err := credentialSettings(req)
	if err != nil {
		return wire.GitHead{}, err
	}
	j, cancel := g.begin(ctx, req.GitRequest, credentials...)
	defer cancel()
	arguments := []string{"clone", "--quiet", "--template=", "--no-recurse-submodules"}
	if req.Branch != "" {
		arguments = append(arguments, "--branch="+req.Branch)
	}
	if req.Depth > 0 {
		arguments = append(arguments, "--depth="+strconv.Itoa(req.Depth))
	}
	result, err := j.run("/", nil, outputBytesMax, append(arguments, "--", req.URL, req.Path)...)
	if err == nil && result.ExitCode != 0 {
		err = refusal(result)
	}
	if err != nil {
		return wire.GitHead{}, err
	}
	return j.head()
}

// With credentials, redirects are off, because git would send the header to the redirect's target.
func credentialSettings(req wire.GitCloneRequest) ([]setting, error) {
	u, err := url.Parse(req.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fail.Invalid("", "Only https URLs without credentials are cloned")
	}
	if strings.ContainsAny(req.URL+req.Path+req.Branch+req.Authorization, "\x00\n\r") || !strings.HasPrefix(req.Path, "/") || req.Depth < 0 {
		return nil, fail.Invalid("", "The request is not valid")
	}
	if req.Authorization == "" {
		return nil, nil
	}
	return []setting{
		{"http.https://" + u.Host + "/.extraHeader", "Authorization: " + req.Authorization},
		{"http.followRedirects", "false"},
	}, nil
}

func (j *job) head() (wire.GitHead, error) {
	head := wire.GitHead{Path: j.req.Path}
	branch, err := j.run(j.req.Path, nil, outputBytesMax, "symbolic-ref", "--short", "--quiet", "HEAD")
	if err != nil {
		return head, err
	}
	head.Branch = lineOf(branch)
	commit, err := j.run(j.req.Path, nil, outputBytesMax, "rev-parse", "--quiet", "--verify", "HEAD")
	head.Commit = lineOf(commit)
	return head, err
}

func lineOf(result helper.Result) *string {
	text := strings.ToValidUTF8(strings.TrimSuffix(string(result.Stdout), "\n"), "\uFFFD")
	if result.ExitCode != 0 || text == "" {
		return nil
	}
	return &text
}

func (g Git) Status(ctx context.Context, req wire.GitRequest) (wire.GitStatus, error) {
	j, cancel := g.begin(ctx, req)
	defer cancel()
	j.env["GIT_OPTIONAL_LOCKS"] = "0"
	root, err := j.run(req.Path, nil, outputBytesMax, "rev-parse", "--show-toplevel")
	if err != nil {
		return wire.GitStatus{}, err
	}
	if root.ExitCode != 0 {
		return wire.GitStatus{}, refusal(root)
	}
	result, err := j.run(req.Path, nil, statusBytesMax,
		"status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--ignored=no", "--ignore-submodules=none", "--renames")
	if err != nil {
		return wire.GitStatus{}, err
	}
	if result.ExitCode != 0 && !result.Truncated {
		return wire.GitStatus{}, refusal(result)
	}
	status, err := parseStatus(result.Stdout, result.Truncated)
	if err != nil {
		return wire.GitStatus{}, fail.Conflict("git_failed", "The workspace's git gave an answer that makes no sense")
	}
	if line := lineOf(root); line != nil {
		status.Root = *line
	}
	return status, nil
}

// Commit stages the changes of req.Paths, or all changes without paths.
func (g Git) Commit(ctx context.Context, req wire.GitCommitRequest) (wire.GitHead, error) {
	j, cancel := g.begin(ctx, req.GitRequest)
	defer cancel()
	if req.Author != nil {
		for _, who := range []string{"AUTHOR", "COMMITTER"} {
			j.env["GIT_"+who+"_NAME"], j.env["GIT_"+who+"_EMAIL"] = req.Author.Name, req.Author.Email
		}
	}
	if err := j.add(req.Paths); err != nil {
		return wire.GitHead{}, err
	}
	result, err := j.run(req.Path, []byte(req.Message), outputBytesMax, "commit", "--no-verify", "--file=-")
	if err != nil {
		return wire.GitHead{}, err
	}
	if result.ExitCode != 0 {
		return wire.GitHead{}, refusal(result)
	}
	return j.head()
}

// add passes paths by stdin, because there may be many, and they may begin with any character.
func (j *job) add(paths []string) error {
	arguments := []string{"add", "--all"}
	var stdin []byte
	if len(paths) > 0 {
		arguments = append(arguments, "--pathspec-from-file=-", "--pathspec-file-nul")
		stdin = []byte(strings.Join(paths, "\x00") + "\x00")
	} else {
		arguments = append(arguments, "--", ":/")
		j.env["GIT_LITERAL_PATHSPECS"] = "0" // ":/" means the top of the working tree
	}
	result, err := j.run(j.req.Path, stdin, outputBytesMax, arguments...)
	j.env["GIT_LITERAL_PATHSPECS"] = "1"
	if err == nil && result.ExitCode != 0 {
		return refusal(result)
	}
	return err
}

package git

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/berth-dev/berth/machine/internal/wire"
)

func text(s string) *string { return &s }
func number(n int) *int     { return &n }

const (
	hashes  = "1111111111111111111111111111111111111111 2222222222222222222222222222222222222222"
	example = "# branch.oid abc\x00# branch.head main\x00# branch.upstream origin/main\x00# branch.ab +2 -1\x00# stash 3\x00" +
		"1 .M N... 100644 100644 100644 " + hashes + " with space\x00" +
		"1 A. N... 000000 100644 100644 " + hashes + " new\nline\x00" +
		"2 R. N... 100644 100644 100644 " + hashes + " R100 to\x00from where\x00" +
		"u UU N... 100644 100644 100644 100644 " + hashes + " 3333333333333333333333333333333333333333 both\x00" +
		"? un\xfftracked\x00! ignored\x00"
)

func TestEveryKindOfRecordIsRead(t *testing.T) {
	got, err := parseStatus([]byte(example), false)
	want := wire.GitStatus{
		Branch: text("main"), Head: text("abc"), Upstream: text("origin/main"), Ahead: number(2), Behind: number(1),
		Files: []wire.GitFile{
			{Path: "with space", Index: "unmodified", Worktree: "modified"},
			{Path: "new\nline", Index: "added", Worktree: "unmodified"},
			{Path: "to", Index: "renamed", Worktree: "unmodified", RenamedFrom: text("from where")},
			{Path: "both", Index: "unmerged", Worktree: "unmerged", Conflicted: true},
			{Path: "un\uFFFDtracked", Index: "untracked", Worktree: "untracked"},
		},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestACleanAndADetachedAndANewRepository(t *testing.T) {
	got, err := parseStatus([]byte("# branch.oid abc\x00# branch.head (detached)\x00"), false)
	if err != nil || !reflect.DeepEqual(got, wire.GitStatus{Head: text("abc"), Clean: true, Files: []wire.GitFile{}}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	got, err = parseStatus([]byte("# branch.oid (initial)\x00# branch.head main\x00"), false)
	if err != nil || got.Head != nil || *got.Branch != "main" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestOutputThatWasCutShortIsReadAsFarAsItGoes(t *testing.T) {
	for cut := range len(example) {
		got, err := parseStatus([]byte(example[:cut]), true)
		if err != nil || !got.Truncated || got.Clean {
			t.Fatalf("cut at %d: %+v, %v", cut, got, err)
		}
	}
}

func TestMoreFilesThanTheBoundAreCutOff(t *testing.T) {
	got, err := parseStatus([]byte(strings.Repeat("? a\x00", wire.GitFilesMax+1)), false)
	if err != nil || len(got.Files) != wire.GitFilesMax || !got.Truncated {
		t.Fatalf("%d files, truncated %v, %v", len(got.Files), got.Truncated, err)
	}
	got, err = parseStatus([]byte(strings.Repeat("? a\x00", wire.GitFilesMax)), false)
	if err != nil || len(got.Files) != wire.GitFilesMax || got.Truncated {
		t.Fatalf("%d files, truncated %v, %v", len(got.Files), got.Truncated, err)
	}
}

func TestWhatGitWouldNotWriteIsRefused(t *testing.T) {
	for _, bad := range []string{
		"?\x00", "? \x00", "x y\x00", "? a", "1 .M N... 100644\x00", "1 ZZ N... 1 1 1 a b p\x00", "1 MMM N... 1 1 1 a b p\x00",
		"2 R. N... 1 1 1 a b R1 p\x00", "# branch.ab +1\x00", "# branch.ab -1 +1\x00", "# branch.ab +x -y\x00", "\x00",
	} {
		if got, err := parseStatus([]byte(bad), false); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzPorcelain(f *testing.F) {
	f.Add([]byte(example), false)
	f.Fuzz(func(t *testing.T, out []byte, cut bool) {
		s, err := parseStatus(out, cut)
		if err != nil {
			return
		}
		if len(s.Files) > wire.GitFilesMax || s.Files == nil || s.Clean && len(s.Files) > 0 {
			t.Errorf("%q: %+v", out, s)
		}
		for _, file := range s.Files {
			if file.Path == "" || file.Index == "" || file.Worktree == "" || !utf8.ValidString(file.Path) {
				t.Errorf("%q: %+v", out, file)
			}
		}
	})
}

func TestTheTokenIsInTheEnvironmentForItsHostAlone(t *testing.T) {
	settings, err := credentialSettings(wire.GitCloneRequest{
		GitRequest: wire.GitRequest{Path: "/x"}, URL: "https://git.test:8443/a/b.git", Authorization: "Bearer t",
	})
	want := []setting{{"http.https://git.test:8443/.extraHeader", "Authorization: Bearer t"}, {"http.followRedirects", "false"}}
	if err != nil || !reflect.DeepEqual(settings, want) {
		t.Fatalf("%v %v", settings, err)
	}
	env := environment(map[string]string{"GIT_TRACE_CURL": "/tmp/x", "GIT_SSL_CAINFO": "/ca", "GIT_DIR": "/y", "A": "b"}, settings)
	for _, gone := range []string{"GIT_TRACE_CURL", "GIT_DIR"} {
		if _, there := env[gone]; there {
			t.Errorf("%s is passed on", gone)
		}
	}
	if env["GIT_SSL_CAINFO"] != "/ca" || env["A"] != "b" || env["GIT_ALLOW_PROTOCOL"] != "https" || env["GIT_CONFIG_COUNT"] != "12" ||
		env["GIT_CONFIG_KEY_11"] != "http.followRedirects" {
		t.Errorf("%v", env)
	}
}

func TestTheAgentItselfRefusesWhatTheGatewayWould(t *testing.T) {
	for _, bad := range []wire.GitCloneRequest{
		{URL: "http://a/b"}, {URL: "ext::sh -c id"}, {URL: "file:///etc/passwd"}, {URL: "-u/bin/sh"}, {URL: "https://u@a/b"},
		{URL: "https:///b"}, {URL: "https://a/b\n"}, {URL: "https://a/b", Authorization: "Basic x\r\nX: y"},
	} {
		bad.Path = "/x"
		if _, err := credentialSettings(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	if _, err := credentialSettings(wire.GitCloneRequest{URL: "https://a/b", GitRequest: wire.GitRequest{Path: "x"}}); err == nil {
		t.Error("a relative path is accepted")
	}
}

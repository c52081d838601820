package supervisor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func statusOf(t *testing.T, file string) map[string]string {
	t.Helper()
	eventually(t, file+" is written", func() bool { _, err := os.Stat(file); return err == nil })
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		said[name] = strings.TrimSpace(value)
	}
	return said
}

func TestAChildThatIsNotRootCanGainNothing(t *testing.T) {
	testns.Needs(t) // root gives up its privileges
	dir, err := os.MkdirTemp("", "supervisor-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	script := func(name string) string {
		file := filepath.Join(dir, name)
		return "cat /proc/self/status > " + file + ".new && mv " + file + ".new " + file + "; exec sleep 1000"
	}
	nobody, root := shell("nobody", script("nobody"), 1), shell("root", script("root"), 2)
	nobody.UID, nobody.GID = 65534, 65534
	// The thread that drops its privileges for the child may be the process's first.
	own, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	background(t, testConfig(t, nobody, root))
	its := statusOf(t, filepath.Join(dir, "nobody"))
	if its["NoNewPrivs"] != "1" || its["Uid"] != "65534\t65534\t65534\t65534" {
		t.Errorf("NoNewPrivs %s, Uid %s", its["NoNewPrivs"], its["Uid"])
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(its[set], "0") != "" || its[set] == "" {
			t.Errorf("%s is %s", set, its[set])
		}
	}
	if others := statusOf(t, filepath.Join(dir, "root")); others["NoNewPrivs"] != "0" || !strings.Contains(string(own), "CapBnd:\t"+others["CapBnd"]) {
		t.Errorf("root has NoNewPrivs %s and CapBnd %s", others["NoNewPrivs"], others["CapBnd"])
	}
}

func TestWhoSaysOfItselfThatItIsAChildOfAnotherUserIsNotTakenForIt(t *testing.T) {
	testns.Needs(t) // the impostor is another user
	child := shell("hostd", "exec sleep 4711", 1)
	child.Argv = []string{"/bin/sleep", "4711"}
	config := testConfig(t, child)
	for _, uid := range []uint32{65534, child.UID} {
		command := exec.Command(child.Argv[0], child.Argv[1:]...)
		command.Args = child.Argv
		command.Env = []string{mark(config.Instance, child)}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		found, err := search(config, child)
		if err != nil || (found != nil) != (uid == child.UID) || found != nil && found.PID != command.Process.Pid {
			t.Errorf("of user %d: %+v, %v", uid, found, err)
		}
		if found != nil {
			found.close()
		}
		if err := command.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = command.Wait() // this process reaps all that end
	}
}

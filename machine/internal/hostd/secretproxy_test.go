package hostd

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTheProxyOfSecretsIsStartedAgainWhenItDiesAndOutlivesHostd(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) {
		config["slots"] = map[string]any{"count": 0, "cpu_millis": 1000, "memory_mib": 256}
		config["shells"] = map[string]any{"count": 0}
		config["secrets_socket"] = filepath.Join(filepath.Dir(config["socket"].(string)), "secrets.sock")
		config["secret_proxy_uid"], config["secret_proxy_gid"] = 54322, 54322
	})
	one := func() bool { return len(d.secretProxies()) == 1 }
	eventually(t, "a proxy runs", one)
	first := d.secretProxies()[0]
	status := statusWithoutRights(t, first)
	for _, line := range []string{"Uid:\t54322\t54322\t54322\t54322\n", "CapPrm:\t0000000000000000\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(status, line) {
			t.Errorf("not %q:\n%s", line, status)
		}
	}
	must(t, unix.Kill(first, unix.SIGKILL))
	eventually(t, "another one runs", func() bool { return one() && d.secretProxies()[0] != first })
	second := d.secretProxies()[0]
	statusWithoutRights(t, second)
	d.kill()
	if now := d.secretProxies(); len(now) != 1 || now[0] != second {
		t.Errorf("after hostd's death the proxies are %v, and was %d", now, second)
	}
	d.start()
	eventually(t, "the next hostd's runs alone", func() bool { return one() && d.secretProxies()[0] != second })
}

// A proxy gives up its last rights after reading its setup, and ends with hostd before that.
func statusWithoutRights(t *testing.T, pid int) string {
	t.Helper()
	var status []byte
	eventually(t, "the proxy has no right", func() bool {
		status, _ = os.ReadFile("/proc/" + itoa(pid) + "/status")
		return strings.Contains(string(status), "Seccomp:\t2\n")
	})
	return string(status)
}

func (d *daemon) secretProxies() (found []int) {
	d.t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(d.t, err)
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		if strings.HasPrefix(string(line), "berth-"+d.config["instance"].(string)+"-secrets\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			must(d.t, err)
			found = append(found, pid)
		}
	}
	return found
}

package hostd

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
)

const blockedName = "4.3.2.10.in-addr.arpa."

func TestTheResolverIsStartedAgainWhenItDiesAndOutlivesHostd(t *testing.T) {
	d := newDaemon(t, func(config map[string]any) {
		config["slots"] = map[string]any{"count": 0, "cpu_millis": 1000, "memory_mib": 256}
		config["shells"] = map[string]any{"count": 0}
		config["resolver_uid"], config["resolver_gid"] = 54321, 54321
	})
	router := d.openRouter()
	serving := func() bool { return d.inventory().Resolver.Serving }
	eventually(t, "the resolver serves", serving)
	first := d.resolver()
	d.asksName(router)
	if status, err := os.ReadFile("/proc/" + itoa(first) + "/status"); err != nil || !strings.Contains(string(status), "Uid:\t54321\t54321\t54321\t54321") {
		t.Errorf("it runs as\n%s, %v", status, err)
	}

	must(t, unix.Kill(first, unix.SIGKILL))
	d.asksName(router) // a query without a running resolver waits for the next one
	second := d.resolver()
	eventually(t, "hostd counts two starts", func() bool { return d.inventory().Resolver.Starts == 2 && serving() })

	d.kill()
	d.asksName(router)
	if now := d.resolver(); now != second || now == first {
		t.Errorf("the resolver is %d after hostd's death, and was %d", now, second)
	}
	d.start()
	eventually(t, "the new hostd's resolver serves", serving)
	eventually(t, "the old one has ended", func() bool { return unix.Kill(second, 0) != nil })
	d.asksName(router)
	if now := d.resolver(); now == second {
		t.Errorf("the old resolver is still %d", now)
	}
}

// openRouter's file stays valid after hostd ends.
func (d *daemon) openRouter() *os.File {
	d.t.Helper()
	file, err := os.Open(d.seenByHostd("run/net/netns/router"))
	must(d.t, err)
	d.t.Cleanup(func() { file.Close() })
	return file
}

func (d *daemon) resolver() int {
	d.t.Helper()
	var found []int
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(d.t, err)
	for _, path := range paths {
		line, _ := os.ReadFile(path)
		if strings.HasPrefix(string(line), "berth-"+d.config["instance"].(string)+"-resolver\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			must(d.t, err)
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		d.t.Fatalf("the resolvers are %v; hostd's log ends: %s", found, d.logTail())
	}
	return found[0]
}

// The query is repeated: a datagram that a dying resolver has read is lost.
func (d *daemon) asksName(router *os.File) {
	d.t.Helper()
	network := d.config["machine_network"].(string)
	nameserver := strings.Replace(network, "0/22", "2", 1)
	for deadline := time.Now().Add(testns.Patience(patient)); ; {
		answer, err := exchangeIn(router, nameserver)
		if err == nil && answer.Rcode == dns.RcodeNameError {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s answers %v, %v; hostd's log ends: %s", nameserver, answer, err, d.logTail())
		}
	}
}

func exchangeIn(namespace *os.File, nameserver string) (answer *dns.Msg, err error) {
	conn, err := dialIn(namespace, nameserver)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := dns.Client{Timeout: 5 * time.Second}
	answer, _, err = client.ExchangeWithConn(new(dns.Msg).SetQuestion(blockedName, dns.TypePTR), &dns.Conn{Conn: conn})
	return answer, err
}

func dialIn(namespace *os.File, address string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, failed := os.Open("/proc/thread-self/ns/net")
		if err = failed; err != nil {
			return
		}
		defer home.Close()
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		conn, err = net.Dial("udp4", address+":53")
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, back)
			return
		}
		runtime.UnlockOSThread()
	}()
	<-done
	return conn, err
}

package resolver

import (
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Command {
		if err := Run(); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testns.Run(m, syscall.CLONE_NEWNET, loopback))
}

func loopback() error {
	link, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(link)
}

const stranger = 54321 // a user that owns nothing

func run(t *testing.T, setup Setup) (at string, process *exec.Cmd) {
	t.Helper()
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer udp.Close()
	tcp, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.MustParseAddrPort(udp.LocalAddr().String())))
	must(t, err)
	defer tcp.Close()
	datagrams, err := udp.File()
	must(t, err)
	defer datagrams.Close()
	streams, err := tcp.File()
	must(t, err)
	defer streams.Close()
	answer, ready, err := os.Pipe()
	must(t, err)
	defer answer.Close()
	line, err := json.Marshal(setup)
	must(t, err)
	process = exec.Command("/proc/self/exe", Command)
	process.Stdin, process.Stderr = strings.NewReader(string(line)+"\n"), os.Stderr
	_, theirs := linkPair(t)
	process.ExtraFiles = []*os.File{datagrams, streams, ready, theirs}
	process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}, Pdeathsig: unix.SIGKILL}
	must(t, process.Start())
	t.Cleanup(func() { process.Process.Kill(); process.Wait() })
	ready.Close()
	must(t, answer.SetReadDeadline(time.Now().Add(testns.Patience(patient))))
	said, err := io.ReadAll(answer)
	must(t, err)
	if string(said) != Ready {
		t.Fatalf("it said %q", said)
	}
	return udp.LocalAddr().String(), process
}

func TestTheProcessHasNoRightsAndAnswersAllTheSame(t *testing.T) {
	upstream, _ := upstream(t, record(t, "example.org. A 203.0.113.10"))
	at, process := run(t, Setup{Resolvers: []string{upstream.String()}, WithUplink: true})
	if answer := lookup(t, machine(1), at, "example.org.", dns.TypeA); len(answer.Answer) != 1 {
		t.Errorf("%v", answer)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(process.Process.Pid), "status"))
	must(t, err)
	for _, line := range []string{"Uid:\t54321\t54321\t54321\t54321", "Gid:\t54321\t54321\t54321\t54321", "Groups:\t \n", "CapEff:\t0000000000000000",
		"CapPrm:\t0000000000000000", "CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), line) {
			t.Errorf("its status lacks %q:\n%s", line, status)
		}
	}
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(process.Process.Pid), "task/*/status"))
	must(t, err)
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err == nil && (!strings.Contains(string(status), "NoNewPrivs:\t1") || !strings.Contains(string(status), "Seccomp:\t2")) {
			t.Errorf("%s is not shut in:\n%s", thread, status)
		}
	}
	if len(threads) < 2 {
		t.Errorf("%d threads were looked at", len(threads))
	}
	must(t, process.Process.Signal(syscall.SIGTERM))
	must(t, process.Wait())
}

func TestTheHostsResolversAreThoseOfItsFileAlsoAfterAChange(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	nameservers := func(text string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o644))
		must(t, os.Chtimes(file, time.Time{}, time.Now().Add(time.Duration(len(text))*time.Hour)))
	}
	nameservers("nameserver 127.0.0.2\n")
	must(t, unix.Mount(file, resolvConf, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(resolvConf, unix.MNT_DETACH)) })
	for number, address := range map[byte]string{2: "127.0.0.2:53", 3: "127.0.0.3:53"} {
		conn, err := net.ListenPacket("udp4", address)
		must(t, err)
		server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
			answer := new(dns.Msg).SetReply(question)
			answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: "a.", Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(203, 0, 113, number)}}
			w.WriteMsg(answer)
		})}
		go server.ActivateAndServe()
		t.Cleanup(func() { conn.Close() })
	}
	at, _ := run(t, Setup{HostsOwn: true, WithUplink: true})
	asks := func(want string) {
		t.Helper()
		answer := lookup(t, machine(1), at, "a.", dns.TypeA)
		if len(answer.Answer) != 1 || answer.Answer[0].(*dns.A).A.String() != want {
			t.Errorf("not %s: %v", want, answer)
		}
	}
	asks("203.0.113.2")
	nameservers("# another network\nnameserver 127.0.0.3\n")
	asks("203.0.113.3")
}

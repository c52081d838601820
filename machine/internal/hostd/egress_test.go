package hostd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	worldAPI   = "203.0.113.10"
	worldOther = "203.0.113.11"
	worldNames = "203.0.113.53"
)

type world struct {
	t        *testing.T
	ns       *os.File
	path     string
	accepted atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	must(t, holder.Start())
	t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	w := &world{t: t, path: fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)}
	var err error
	w.ns, err = os.Open(w.path)
	must(t, err)
	t.Cleanup(func() { w.ns.Close() })
	must(t, within(w.ns, func() error {
		handle, err := netlink.NewHandle(nl.FAMILY_ALL)
		if err != nil {
			return err
		}
		defer handle.Close()
		link, err := handle.LinkByName("lo")
		if err != nil {
			return err
		}
		err = handle.LinkSetUp(link)
		for _, text := range []string{worldAPI, worldOther, worldNames, "169.254.169.254"} {
			address, wrong := netlink.ParseAddr(text + "/32")
			err = errors.Join(err, wrong, handle.AddrReplace(link, address))
		}
		return err
	}))
	w.serve()
	return w
}

func within(namespace *os.File, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- err
			return
		}
		defer home.Close()
		if err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err == nil {
			err = do()
			if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
				runtime.UnlockOSThread()
			}
		}
		done <- err
	}()
	return <-done
}

func (w *world) serve() {
	w.t.Helper()
	var echo net.Listener
	var names net.PacketConn
	must(w.t, within(w.ns, func() (err error) {
		if echo, err = net.Listen("tcp4", "0.0.0.0:443"); err == nil {
			names, err = net.ListenPacket("udp4", worldNames+":53")
		}
		return err
	}))
	w.t.Cleanup(func() { echo.Close(); names.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			w.accepted.Add(1)
			go func() { defer conn.Close(); io.Copy(conn, conn) }()
		}
	}()
	server := &dns.Server{PacketConn: names, Handler: dns.HandlerFunc(func(to dns.ResponseWriter, question *dns.Msg) {
		answer := new(dns.Msg).SetReply(question)
		asked := question.Question[0]
		addresses := map[string][]string{"api.example.com.": {worldAPI}, "rebinds.example.com.": {"169.254.169.254", worldOther}, "evil.example.org.": {worldOther}}
		for _, text := range addresses[strings.ToLower(asked.Name)] {
			if asked.Qtype == dns.TypeA {
				answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.ParseIP(text)})
			}
		}
		to.WriteMsg(answer)
	})}
	go server.ActivateAndServe()
}

func allowing(revision string, hosts ...string) *wire.HostEgress {
	p := &wire.HostEgress{Revision: revision, Mode: wire.EgressAllowlist, Rules: []wire.HostEgressRule{}, CIDRs: []string{}}
	for _, host := range hosts {
		p.Rules = append(p.Rules, wire.HostEgressRule{Host: host, Ports: []int{443}})
	}
	return p
}

func denying(revision string) *wire.HostEgress {
	return &wire.HostEgress{Revision: revision, Mode: wire.EgressDenyAll, Rules: []wire.HostEgressRule{}, CIDRs: []string{}}
}

func (d *daemon) reaches(m wire.Machine, host string, want bool) {
	d.t.Helper()
	script := fmt.Sprintf(`bash -c 'if (exec 3<>/dev/tcp/%s/443) 2>/dev/null; then echo yes; else echo no; fi'`, host)
	began := time.Now()
	got := d.run(m, script)
	if got != map[bool]string{true: "yes", false: "no"}[want] {
		d.t.Errorf("%s is reached: %q", host, got)
	}
	if took := time.Since(began); took > 20*time.Second {
		d.t.Errorf("%s: %q took %s", host, got, took)
	}
}

func (d *daemon) setEgress(m wire.Machine, p *wire.HostEgress) (wire.EgressRevision, *wire.HostError) {
	d.t.Helper()
	var answer wire.EgressRevision
	refusal := d.call("POST", "/machines/set_egress", wire.SetEgressRequest{Fence: d.fence(m.Owner(), m.Epoch), Egress: *p}, &answer)
	return answer, refusal
}

func (d *daemon) hasEgress(m wire.Machine, revision string) {
	d.t.Helper()
	if got := d.machineOf(m.Owner()); got == nil || got.Egress != (wire.EgressInForce{Revision: revision, State: wire.EgressEnforced}) {
		d.t.Errorf("not %s is in force: %+v", revision, got)
	}
}

func policedDaemon(t *testing.T) (*daemon, *world) {
	t.Helper()
	w := newWorld(t)
	d := newDaemon(t, func(config map[string]any) {
		config["uplink"], config["resolvers"] = w.path, []string{worldNames}
		config["resolver_uid"], config["resolver_gid"] = 54321, 54321
	})
	return d, w
}

func TestAMachineReachesWhatItsPolicyAllowsFromItsFirstPacketOn(t *testing.T) {
	d, w := policedDaemon(t)
	request := d.startRequest(newID(), 1)
	request.Connect, request.Egress = true, allowing("r1", "api.example.com", "rebinds.example.com")
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", request, &m))
	if m.Egress != (wire.EgressInForce{Revision: "r1", State: wire.EgressEnforced}) {
		t.Errorf("the answer says %+v", m.Egress)
	}
	d.reaches(m, worldAPI, false) // its name has not been resolved yet
	d.reaches(m, "evil.example.org", false)
	d.reaches(m, worldOther, false)
	d.reaches(m, "169.254.169.254", false)
	if got := w.accepted.Load(); got != 0 {
		t.Errorf("%d connections came", got)
	}
	d.reaches(m, "api.example.com", true)
	d.reaches(m, worldAPI, true)
	d.reaches(m, "rebinds.example.com", true) // at its public address
	d.reaches(m, "169.254.169.254", false)

	var denials wire.EgressDenials
	eventually(t, "what was refused is told", func() bool {
		d.ok(d.call("POST", "/machines/egress_denials", wire.EgressDenialsRequest{Subject: m.Subject}, &denials))
		name, address := false, false
		for _, one := range denials.Denials {
			name = name || one.Name != nil && *one.Name == "evil.example.org" && one.Address == nil && one.Protocol == wire.DeniedDNS && one.Count > 0
			address = address || one.Address != nil && *one.Address == worldOther && one.Port == 443 && one.Protocol == wire.DeniedTCP
		}
		return name && address
	})
	if refusal := d.call("POST", "/machines/egress_denials", wire.EgressDenialsRequest{Subject: wire.Workspace(newID())}, &denials); refusal != nil || len(denials.Denials) != 0 {
		t.Errorf("of nobody: %v, %v", refusal, denials)
	}

	for code, change := range map[string]func(*wire.SetEgressRequest){
		"fenced":      func(r *wire.SetEgressRequest) { r.Fence.Fence = 1 },
		"not_running": func(r *wire.SetEgressRequest) { r.Epoch = 7 },
		"bad_request": func(r *wire.SetEgressRequest) { r.Egress.CIDRs = []string{"10.0.0.0/8"} },
	} {
		wrong := wire.SetEgressRequest{Fence: d.fence(m.Owner(), m.Epoch), Egress: *allowing("r9")}
		if code == "fenced" {
			_, refusal := d.setEgress(m, allowing("r1", "api.example.com", "rebinds.example.com"))
			d.ok(refusal)
		}
		change(&wrong)
		d.refused(d.call("POST", "/machines/set_egress", wrong, nil), code)
	}
	d.hasEgress(m, "r1")
	d.stop(m)
}

func TestAChangeOfThePolicyCutsConnectionsWithinASecondAndOutlivesHostd(t *testing.T) {
	d, w := policedDaemon(t)
	request := d.startRequest(newID(), 1)
	request.Connect = true
	var m wire.Machine
	d.ok(d.call("POST", "/machines/start", request, &m))
	d.hasEgress(m, wire.EgressDefault)
	d.reaches(m, "evil.example.org", true)
	d.begin(m, "talk", `exec bash -c 'exec 3<>/dev/tcp/api.example.com/443; while echo x >&3 && read -r -u 3 line; do echo "$line"; sleep 0.05; done'`)
	talks := func() bool {
		record := d.session(m, "talk")
		return record.State == "running" && record.StdoutBytes > 4
	}
	eventually(t, "the connection carries bytes", talks)

	_, refusal := d.setEgress(m, allowing("r2", "api.example.com"))
	d.ok(refusal)
	d.hasEgress(m, "r2")
	eventually(t, "its address was never granted under the new policy, so it is cut", func() bool { return d.session(m, "talk").State != "running" })
	d.begin(m, "again", `exec bash -c 'exec 3<>/dev/tcp/api.example.com/443; while echo x >&3 && read -r -u 3 line; do echo "$line"; sleep 0.05; done'`)
	eventually(t, "it is made again", func() bool {
		record := d.session(m, "again")
		return record.State == "running" && record.StdoutBytes > 4
	})
	_, refusal = d.setEgress(m, allowing("r3", "api.example.com", "rebinds.example.com"))
	d.ok(refusal)
	d.reaches(m, "evil.example.org", false)

	first := d.resolver()
	d.kill()
	d.reaches(m, "evil.example.org", false)
	d.reaches(m, worldOther, false)
	d.start()
	d.hasEgress(m, "r3")
	if d.session(m, "again").State != "running" {
		t.Error("the connection did not outlive hostd")
	}
	eventually(t, "another resolver serves", func() bool { return d.inventory().Resolver.Serving && unix.Kill(first, 0) != nil })
	d.reaches(m, "rebinds.example.com", true)
	d.reaches(m, "evil.example.org", false)

	must(t, unix.Kill(d.resolver(), unix.SIGKILL))
	began := time.Now()
	_, refusal = d.setEgress(m, denying("r4"))
	d.ok(refusal)
	took := time.Since(began)
	eventually(t, "it is cut", func() bool { return d.session(m, "again").State != "running" })
	t.Logf("set in %d ms beside a dead resolver, cut after %d ms", took.Milliseconds(), time.Since(began).Milliseconds())
	before := w.accepted.Load()
	d.reaches(m, "api.example.com", false)
	d.reaches(m, worldAPI, false)

	id := newID()
	d.checkpoint(m, id, "paused")
	d.stop(m)
	restore := d.restoreRequest(m.Owner(), id, 2)
	restore.Egress = denying("r5")
	d.ok(d.call("POST", "/machines/restore", restore, &m))
	d.ok(d.call("POST", "/machines/connect", wire.Fenced{Fence: d.fence(m.Owner(), m.Epoch)}, nil))
	d.hasEgress(m, "r5")
	d.reaches(m, "api.example.com", false)
	d.reaches(m, worldAPI, false)
	if got := w.accepted.Load(); got != before {
		t.Errorf("%d connections came under deny_all", got-before)
	}
	_, refusal = d.setEgress(m, &wire.HostEgress{Revision: "r6", Mode: wire.EgressAllowAll})
	d.ok(refusal)
	d.reaches(m, "evil.example.org", true)
	d.stop(m)
}

// The stopped resolver acknowledges nothing, so the update stays in flight.
func TestAnAddressIsNobodyElsesWhileAPolicyIsToldOfIt(t *testing.T) {
	d := newDaemon(t, nil)
	eventually(t, "the resolver serves", func() bool { return d.inventory().Resolver.Serving })
	m := d.startMachine(newID(), 1)
	must(t, unix.Kill(d.resolver(), unix.SIGSTOP))
	told := make(chan struct{})
	go func() {
		defer close(told)
		d.setEgress(m, denying("r1")) // the result does not matter: the machine ends during the call
	}()
	eventually(t, "the policy is in the kernel", func() bool { return d.machineOf(m.Owner()).Egress.Revision == "r1" })
	d.stop(m)
	eventually(t, "its network is gone", func() bool {
		_, err := os.Lstat(d.seenByHostd("run", "net", "netns", "m-"+m.Slot))
		return os.IsNotExist(err)
	})
	select {
	case <-told:
	case <-time.After(policyAcked / 3): // allows time for the answer to arrive
		t.Fatal("the network of the machine is gone while its policy is being told")
	}
}

package spawn

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// A worker, and a child before execve, may call assembly, and code that neither allocates, grows its stack nor uses the
// Go runtime.
var allowed = regexp.MustCompile(`^(` +
	`github\.com/berth-dev/berth/machine/internal/agent/(spawn|rehearse)\.\S+` +
	`|(syscall|golang\.org/x/sys/unix)\.[rR]awSyscall\w*(\.abi0)?|internal/runtime/syscall/linux\.Syscall6(\.abi0)?` + // assembly or a frame
	`|runtime\.(duffzero|duffcopy|memmove|memclrNoHeapPointers)(\.abi0)?` + // assembly
	`|runtime\.(gcWriteBarrier\d|wbZero)` + // only during a collection, which the spawner turns off
	`|runtime\.panicBounds` + // on a wrong index, which is fatal anyway
	`)$`)

var (
	functionLine = regexp.MustCompile(`(?m)^TEXT (\S+)\(SB\) .*$`)
	callLine     = regexp.MustCompile(`(?m)^\s+\S+:-?\d+\s+0x[0-9a-f]+\s+[0-9a-f]+\s+(?:CALL|JMP|BL|B|CALL\*) (.*\S)\s*$`)
	addressOnly  = regexp.MustCompile(`^(0x[0-9a-f]+|\d+\(PC\))$`) // a jump within the function
	named        = regexp.MustCompile(`^(\S+)\(SB\)$`)
)

// A call through a register is listed by its operand.
func calls(t *testing.T, binary string) map[string][]string {
	t.Helper()
	listing, err := exec.Command("go", "tool", "objdump", "-s", `agent/(spawn|rehearse)\.|^(syscall|golang\.org/x/sys/unix)\.[rR]awSyscall|^internal/runtime/syscall`, binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	graph := map[string][]string{}
	starts := functionLine.FindAllSubmatchIndex(listing, -1)
	for i, at := range starts {
		end := len(listing)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name := string(listing[at[2]:at[3]])
		graph[name] = []string{}
		for _, call := range callLine.FindAllSubmatch(listing[at[1]:end], -1) {
			operand := string(call[1])
			if addressOnly.MatchString(operand) {
				continue
			}
			if symbol := named.FindStringSubmatch(operand); symbol != nil {
				operand = symbol[1]
			}
			if operand != name {
				graph[name] = append(graph[name], operand)
			}
		}
	}
	return graph
}

func TestAWorkerCallsNothingOfTheRuntime(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "agent")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-w", "-o", binary, "../../../cmd/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	const worker = "github.com/berth-dev/berth/machine/internal/agent/spawn.(*worker).live"
	graph := calls(t, binary)
	seen, next := map[string]bool{}, []string{worker}
	for len(next) > 0 {
		function := next[0]
		next = next[1:]
		if seen[function] {
			continue
		}
		seen[function] = true
		for _, called := range graph[function] {
			if !allowed.MatchString(called) {
				t.Errorf("%s calls %s", function, called)
				continue
			}
			next = append(next, called)
		}
	}
	for _, part := range []string{"(*worker).receive", "(*worker).send", "(*fork).start", "rawVfork.abi0", "runChild", "execChild"} {
		if !slices.ContainsFunc(keys(seen), func(name string) bool { return bytes.HasSuffix([]byte(name), []byte("spawn."+part)) }) {
			t.Errorf("%s is not reached from %s", part, worker)
		}
	}
	for name := range seen {
		if _, known := graph[name]; !known && !bytes.HasPrefix([]byte(name), []byte("runtime.")) {
			t.Errorf("%s is not in the listing", name)
		}
	}
}

func keys(set map[string]bool) (list []string) {
	for name := range set {
		list = append(list, name)
	}
	return list
}

// Command runsc of this folder is not runsc: it writes gVisor's precompiled seccomp filters into a vendored copy of gVisor.
//
// Usage: go run . VENDOR, where VENDOR is the vendor folder of this module. README.md says why this is needed.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	boot "gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

// A filter is one of gVisor's two: the sandbox's, compiled again at every start unless it is registered, and the gofer's.
type filter struct {
	file     string
	programs func() ([]precompiledseccomp.Program, error)
	// A program is kept if its name has all of these: no machine is given a GPU, a TPU, RDMA or a host's socket. A runsc that
	// is asked for one still works, it compiles the filter when it starts.
	kept []string
}

var filters = []filter{
	{
		file:     "gvisor.dev/gvisor/runsc/boot/filter/filter_precompiled.go",
		programs: boot.PrecompiledPrograms,
		kept:     []string{"NVProxy=false", "TPUProxy=false", "RDMAProxy=false"},
	},
	{
		file:     "gvisor.dev/gvisor/runsc/fsgofer/filter/filter_precompiled.go",
		programs: gofer.PrecompiledPrograms,
		kept:     []string{"UDSOpenEnabled=false", "UDSCreateEnabled=false", "CgoEnabled=false"},
	},
}

// The places of a vendored file that change. Each must be there exactly once: a gVisor that is laid out differently fails the
// build, where a silent miss would give a runsc that starts every machine 100 ms slower.
const (
	disabled     = "const PrecompilationDisabledAtBuildTime = true\n"
	enabled      = "const PrecompilationDisabledAtBuildTime = false\n"
	registration = "\tprograms := make(map[string]precompiledseccomp.Program)\n"
)

// secondRun is set in the environment of the run that writes.
const secondRun = "BERTH_RUNSC_SECOND_RUN"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . VENDOR")
		os.Exit(2)
	}
	if err := generate(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "cannot write the precompiled seccomp filters:", err)
		os.Exit(1)
	}
}

func generate(vendor string) error {
	// What this program itself is compiled from changes first; the second run is compiled from it.
	if os.Getenv(secondRun) == "" {
		if err := applyPatch(vendor, beforeGenerating); err != nil {
			return err
		}
		return again()
	}
	for _, f := range filters {
		if err := f.writeTo(vendor); err != nil {
			return err
		}
	}
	names, err := otherPatches()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := applyPatch(vendor, name); err != nil {
			return err
		}
	}
	return checkBrief(vendor)
}

func again() error {
	command := exec.Command("go", append([]string{"run", "-mod=vendor", "-trimpath", "-buildvcs=false", "."}, os.Args[1:]...)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), secondRun+"=1")
	if err := command.Run(); err != nil {
		return fmt.Errorf("the run that is compiled from the changed rules: %w", err)
	}
	return nil
}

func (f filter) writeTo(vendor string) error {
	path := filepath.Join(vendor, f.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all, err := f.programs()
	if err != nil {
		return err
	}
	kept := f.choose(all)
	fmt.Printf("%s: %d of %d programs\n", f.file, len(kept), len(all))
	rewritten, err := register(string(source), kept)
	if err != nil {
		return fmt.Errorf("%s: %w", f.file, err)
	}
	return os.WriteFile(path, []byte(rewritten), 0o644)
}

func (f filter) choose(all []precompiledseccomp.Program) []precompiledseccomp.Program {
	var kept []precompiledseccomp.Program
	for _, program := range all {
		if containsAll(program.Name, f.kept) {
			kept = append(kept, program)
		}
	}
	// By name, so that two builds give the same binary.
	sort.Slice(kept, func(i, j int) bool { return kept[i].Name < kept[j].Name })
	return kept
}

func containsAll(name string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(name, part) {
			return false
		}
	}
	return true
}

func register(source string, programs []precompiledseccomp.Program) (string, error) {
	if len(programs) == 0 {
		return "", errors.New("no program is left: the names of gVisor's programs have changed")
	}
	for _, text := range []string{disabled, registration} {
		if n := strings.Count(source, text); n != 1 {
			return "", fmt.Errorf("expected %q once in gVisor's file, found it %d times", strings.TrimSpace(text), n)
		}
	}
	var registrations strings.Builder
	registrations.WriteString(registration)
	for _, program := range programs {
		registrations.WriteString(program.Registration("\t", "precompiledseccomp", "programs"))
	}
	source = strings.Replace(source, disabled, enabled, 1)
	return strings.Replace(source, registration, registrations.String(), 1), nil
}

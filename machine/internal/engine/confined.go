package engine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// These capabilities are the most that runsc's processes may have. They permit access to files of every owner, but no
// change of mounts, networks or kernel. The guest's instructions run in child processes under a different filter.
var capabilitiesMax = map[string]uint64{
	"runsc-sandbox": files | 1<<unix.CAP_SYS_PTRACE,
	"runsc-gofer":   files | 1<<unix.CAP_SYS_CHROOT,
}

const files = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID

var namespacesOwn = []string{"user", "mnt", "net", "pid", "ipc", "uts"}

func (e *Engine) confined(s *Sandbox) error {
	members, err := e.groups.Get(s.Slot).Procs()
	if err != nil {
		return err
	}
	looked := map[string]bool{}
	for _, pid := range members {
		args := arguments(pid)
		if len(args) == 0 {
			continue
		}
		most, ok := capabilitiesMax[args[0]]
		if !ok {
			continue
		}
		if err := isConfined(pid, most); err != nil {
			return fmt.Errorf("%s is not confined: process %d: %w", args[0], pid, err)
		}
		looked[args[0]] = true
	}
	if len(looked) != len(capabilitiesMax) {
		return fmt.Errorf("of the sandbox's processes only %d kinds are there", len(looked))
	}
	return nil
}

func isConfined(pid int, most uint64) error {
	dir := "/proc/" + strconv.Itoa(pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return err
	}
	if err := checkStatus(string(status), most); err != nil {
		return err
	}
	for _, kind := range namespacesOwn {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return err
		}
		its, err := os.Readlink(dir + "/ns/" + kind)
		if err != nil {
			return err
		}
		if own == its {
			return fmt.Errorf("it is in the host's %s namespace", kind)
		}
	}
	return nil
}

func checkStatus(status string, most uint64) error {
	said := map[string]string{}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		said[name] = strings.TrimSpace(value)
	}
	if said["Seccomp"] != "2" || said["NoNewPrivs"] != "1" {
		return errors.New("its system calls are not filtered, or it may gain privileges")
	}
	for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"} {
		held, err := strconv.ParseUint(said[set], 16, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
		if held&^most != 0 {
			return fmt.Errorf("its %s has %#x, %#x at most", set, held, most)
		}
	}
	return nil
}

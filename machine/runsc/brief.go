package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The types that an image may hold in brief (patches_objects.go), by folder: plain values, links of lists and empty sets, which most
// inodes and sockets have several of.
var (
	numberTypes = map[string][]string{"pkg/atomicbitops": {"Int32", "Int64", "Uint32", "Uint64"}}
	nilTypes    = map[string][]string{
		"pkg/cpuid":                  {"Out"},
		"pkg/sentry/checkpoint":      {"ResourceID"},
		"pkg/sentry/fsimpl/cgroupfs": {"implStatFS"},
		"pkg/sentry/fsimpl/gofer":    {"dentryEntry"},
		"pkg/sentry/fsimpl/kernfs":   kernfsTypes,
		"pkg/sentry/fsimpl/lock":     {"Locks"}, // an empty set saves itself as an empty list
		"pkg/sentry/fsimpl/tmpfs":    {"dentryEntry"},
		"pkg/sentry/vfs":             {"FileLocks", "MountFlags", "VirtualDentry", "Watches", "followerEntry", "followerList", "mountLockFlags"},
		"pkg/sentry/vfs/memxattr":    {"SimpleExtendedAttributes"},
		"pkg/tcpip":                  {"Address", "MonotonicTime", "StatCounter"},
		"pkg/tcpip/stack/gro":        {"groPacketEntry"},
		"pkg/waiter":                 {"Queue", "waiterList"},
	}
	kernfsTypes = []string{
		"InodeAlwaysValid", "InodeDirectoryNoNewChildren", "InodeFSOwned", "InodeNoStatFS", "InodeNoopRefCount", "InodeNotAnonymous",
		"InodeNotDirectory", "InodeNotSymlink", "InodeTemporary", "InodeWatches", "dentryEntry", "dentryList", "slotEntry", "slotList",
	}
)

// briefTable is the inside of a Go map of them.
func briefTable() string {
	var lines []string
	for brevity, folders := range map[string]map[string][]string{"asNumber": numberTypes, "nilWhenZero": nilTypes} {
		for folder, names := range folders {
			for _, name := range names {
				lines = append(lines, fmt.Sprintf("\t%q: %s,\n", folder+"."+name, brevity))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// checkBrief fails where saving or loading one of the types does more than to write and read its fields: a zero value that is left out
// would then be another machine.
func checkBrief(vendor string) error {
	for _, folders := range []map[string][]string{numberTypes, nilTypes} {
		for folder, names := range folders {
			generated, err := generatedIn(filepath.Join(vendor, "gvisor.dev/gvisor", folder))
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := checkPlain(generated, name); err != nil {
					return fmt.Errorf("%s.%s: %w", folder, name, err)
				}
			}
		}
	}
	return nil
}

func generatedIn(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_state_autogen.go"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		all.Write(text)
	}
	return all.String(), nil
}

// checkPlain reads what gVisor's generator wrote: an empty beforeSave and afterLoad stand there only where the type has none of its own.
func checkPlain(generated, name string) error {
	method := func(of, body string) *regexp.Regexp {
		return regexp.MustCompile(`(?m)^func \(\w+ \*` + name + `\) ` + of + `\([^)]*\) \{` + body + `\}$`)
	}
	for of, body := range map[string]string{
		"beforeSave": ``,
		"afterLoad":  ``,
		"StateSave":  `\n\t\w+\.beforeSave\(\)\n(\tstateSinkObject\.Save\(\d+, &[\w.]+\)\n)*`,
		"StateLoad":  `\n(\tstateSourceObject\.Load\(\d+, &[\w.]+\)\n)*`,
	} {
		if !method(of, body).MatchString(generated) {
			return fmt.Errorf("gVisor's %s of it does more than to take its fields", of)
		}
	}
	return nil
}

package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	neededV1 = []string{"cpu", "memory", "pids", "freezer"}
	neededV2 = []string{"cpu", "memory", "pids"}
)

func detect() (version, error) {
	v1, unified, err := readMounts()
	if err != nil {
		return nil, err
	}
	if _, ok := v1["memory"]; ok {
		for _, controller := range neededV1 {
			if v1[controller] == "" {
				return nil, fmt.Errorf("cgroup v1 is used for memory, but its controller %s is not mounted", controller)
			}
		}
		return &versionOne{mounts: v1}, nil
	}
	if unified == "" {
		return nil, errors.New("no cgroup hierarchy is mounted (neither v1 with a memory controller nor v2)")
	}
	return openV2(unified, neededV2)
}

func readMounts() (v1 map[string]string, unified string, err error) {
	file, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	v1 = map[string]string{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		head, tail := strings.Fields(before), strings.Fields(after)
		if len(head) < 5 || len(tail) < 3 {
			continue
		}
		switch tail[0] {
		case "cgroup":
			for _, option := range strings.Split(tail[2], ",") {
				if option != "rw" && option != "ro" && v1[option] == "" {
					v1[option] = head[4]
				}
			}
		case "cgroup2":
			if unified == "" {
				unified = head[4]
			}
		}
	}
	return v1, unified, lines.Err()
}

// Only the host's real root group can have processes and delegate controllers. In a container, openV2 therefore moves
// the root's processes to a leaf.
func openV2(root string, needed []string) (*versionTwo, error) {
	text, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil {
		return nil, err
	}
	have := strings.Fields(string(text))
	for _, controller := range needed {
		if !slices.Contains(have, controller) {
			return nil, fmt.Errorf("the cgroup v2 tree at %s has no controller %s (it has: %s): it must be delegated to Berth", root, controller, strings.Join(have, " "))
		}
	}
	v := &versionTwo{root: root, needed: needed}
	if err = v.delegate(""); errors.Is(err, unix.EBUSY) {
		if err = v.moveToLeaf(); err == nil {
			err = v.delegate("")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("enable controllers at %s: %w", root, err)
	}
	return v, nil
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// encoder is where speed/plain-objects-are-brief.patch lists the types that an image may hold in brief, by folder: plain values, links of
// lists and empty sets, which most inodes and sockets have several of.
const encoder = "pkg/state/encode.go"

var briefType = regexp.MustCompile(`(?m)^\t"([\w/]+)\.(\w+)": +(?:asNumber|nilWhenZero),$`)

// checkBrief fails where saving or loading one of the types does more than write and read its fields. An image that leaves out a zero value
// of such a type would restore another state than was saved.
func checkBrief(vendor string) error {
	source, err := os.ReadFile(filepath.Join(vendor, gvisor, encoder))
	if err != nil {
		return err
	}
	types := briefType.FindAllStringSubmatch(string(source), -1)
	if len(types) == 0 {
		return errors.New(encoder + " has no type that is written in brief")
	}
	for _, of := range types {
		folder, name := of[1], of[2]
		generated, err := generatedIn(filepath.Join(vendor, gvisor, folder))
		if err != nil {
			return err
		}
		if err := checkPlain(generated, name); err != nil {
			return fmt.Errorf("%s.%s: %w", folder, name, err)
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

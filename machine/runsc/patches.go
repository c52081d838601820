package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// Each file below patches/ mends gVisor for one reason, which its head gives. patches/series has their order.
//
//go:embed patches
var patchFiles embed.FS

// beforeGenerating is the first of the series: this program is itself compiled from what it changes.
const beforeGenerating = "correctness/filters-name-process-1.patch"

const gvisor = "gvisor.dev/gvisor"

// otherPatches are those of the series that come after beforeGenerating.
func otherPatches() ([]string, error) {
	text, err := patchFiles.ReadFile("patches/series")
	if err != nil {
		return nil, err
	}
	names := strings.Fields(string(text))
	if len(names) == 0 || names[0] != beforeGenerating {
		return nil, fmt.Errorf("patches/series does not begin with %s", beforeGenerating)
	}
	return names[1:], nil
}

// applyPatch changes the files that the patch names. Every line of it must stand where the patch has it: a gVisor that has changed there
// fails the build, so that whoever moves the pin looks whether the patch is still needed.
func applyPatch(vendor, name string) error {
	text, err := patchFiles.Open("patches/" + name)
	if err != nil {
		return err
	}
	defer text.Close()
	files, _, err := gitdiff.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s changes nothing", name)
	}
	for _, file := range files {
		if err := applyTo(filepath.Join(vendor, gvisor, file.OldName), file); err != nil {
			return fmt.Errorf("%s does not fit %s: %w", name, file.OldName, err)
		}
	}
	return nil
}

func applyTo(path string, change *gitdiff.File) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var changed bytes.Buffer
	if err := gitdiff.Apply(&changed, bytes.NewReader(source), change); err != nil {
		return err
	}
	return os.WriteFile(path, changed.Bytes(), 0o644)
}

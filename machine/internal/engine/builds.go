package engine

import (
	"fmt"
	"os"
	"regexp"
)

// Build names the engine and specification that a checkpoint needs. A sandbox runs one build until it ends.
type Build struct {
	Engine      string // the output of `runsc --version`
	SpecVersion int
}

// These characters need no escaping in overlay options, where colon and backslash have a meaning.
var versionPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+~-]{0,127}$`)

func IsVersion(text string) bool { return versionPattern.MatchString(text) }

// gVisor treats binaries of the same version as equal, so a newer binary replaces the stored one.
func (e *Engine) storeBuild(path, version string) error {
	if !versionPattern.MatchString(version) {
		return fmt.Errorf("the version that %s says, %q, cannot name a directory", path, version)
	}
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	kept, err := os.Stat(e.builds.path(version))
	if err == nil && kept.Size() == info.Size() && kept.ModTime().Equal(info.ModTime()) {
		return nil
	}
	copied, err := e.builds.stage(source)
	if err != nil {
		return err
	}
	defer copied.discard()
	return copied.become(version, info.ModTime())
}

// Current returns the build of new sandboxes.
func (e *Engine) Current() Build { return Build{Engine: e.version, SpecVersion: SpecVersion} }

// Builds lists the engine versions that are stored on this computer.
func (e *Engine) Builds() ([]string, error) { return e.builds.names() }

// Hold protects an engine and an agent from Collect until release. It fails if one of them is not stored.
func (e *Engine) Hold(engine, agent string) (release func(), missing error) {
	letBuild, ok := e.builds.hold(engine)
	if !ok {
		return nil, fmt.Errorf("the engine %s is not kept here", engine)
	}
	letAgent, ok := e.agents.hold(agent)
	if !ok {
		letBuild()
		return nil, fmt.Errorf("the agent %s is not kept here", agent)
	}
	return func() { letBuild(); letAgent() }, nil
}

// Keeps reports whether an engine and an agent are stored. It does not protect them from Collect.
func (e *Engine) Keeps(engine, agent string) (missing error) {
	if !e.builds.has(engine) {
		return fmt.Errorf("the engine %s is not kept here", engine)
	}
	if !e.agents.has(agent) {
		return fmt.Errorf("the agent %s is not kept here", agent)
	}
	return nil
}

// Needed is the set of programs that must not be removed: engines by version, agents by digest.
type Needed struct{ Engines, Agents map[string]bool }

// Spare reports whether programs are stored that new machines do not run, so that Collect could remove them.
func (e *Engine) Spare() (bool, error) {
	for name, k := range map[string]*programStore{e.version: e.builds, e.agent: e.agents} {
		entries, err := os.ReadDir(k.dir)
		if err != nil {
			return false, err
		}
		for _, entry := range entries {
			if entry.Name() != name {
				return true, nil
			}
		}
	}
	return false, nil
}

// Collect removes the programs that find does not name, unless a verb used them since Collect began.
func (e *Engine) Collect(find func(Needed) error) error {
	e.builds.beginCollection()
	e.agents.beginCollection()
	needed := Needed{Engines: map[string]bool{e.version: true}, Agents: map[string]bool{e.agent: true}}
	if err := find(needed); err != nil {
		return err
	}
	builds, err := e.builds.collect(needed.Engines)
	if err != nil {
		return err
	}
	agents, err := e.agents.collect(needed.Agents)
	if len(builds)+len(agents) > 0 {
		e.log.Info("removed unneeded programs", "engines", builds, "agents", agents)
	}
	return err
}

package engine

import (
	"fmt"
	"os"
	"regexp"
)

// Build is what a checkpoint restores under, and under nothing else: a sandbox begins and ends its life under one.
type Build struct {
	Engine      string // what `runsc --version` says
	SpecVersion int
}

// versionPattern is what can be the name of a directory; a colon or a backslash would mean something in an overlay's options.
var versionPattern = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+~-]{0,127}$`)

// IsVersion says whether a text can be the version of an engine.
func IsVersion(text string) bool { return versionPattern.MatchString(text) }

// storeBuild keeps a copy of the engine's binary under its version for as long as a machine or a checkpoint needs it, whatever becomes
// of the original. One that says the same version and is another file replaces it: to gVisor they are the same.
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

// Current is the build of everything that is started anew.
func (e *Engine) Current() Build { return Build{Engine: e.version, SpecVersion: SpecVersion} }

// Builds names the engines that are kept here: a checkpoint of another one cannot be restored.
func (e *Engine) Builds() ([]string, error) { return e.builds.names() }

// Hold keeps the engine and the agent that a checkpoint or a machine names from being collected until release, or says what is missing.
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

// Keeps says what is missing of the engine and the agent that a checkpoint names. Only Hold keeps them.
func (e *Engine) Keeps(engine, agent string) (missing error) {
	if !e.builds.has(engine) {
		return fmt.Errorf("the engine %s is not kept here", engine)
	}
	if !e.agents.has(agent) {
		return fmt.Errorf("the agent %s is not kept here", agent)
	}
	return nil
}

// Needed are the programs that somebody needs, by version and by digest.
type Needed struct{ Engines, Agents map[string]bool }

// Spare says whether anything is kept beside what new machines start with.
func (e *Engine) Spare() (bool, error) {
	for name, k := range map[string]*keep{e.version: e.builds, e.agent: e.agents} {
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

// Collect removes the engines and agents that nobody needs. Who does is looked for in find, so that what a verb takes in hand meanwhile
// stays.
func (e *Engine) Collect(find func(Needed) error) error {
	e.builds.look()
	e.agents.look()
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
		e.log.Info("removed programs that nothing needs any more", "engines", builds, "agents", agents)
	}
	return err
}

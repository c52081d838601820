// Package cgroup separates machines, the service and command-line runs, on cgroup v1 and v2.
//
//	berth-<instance>/machines/<slot>   one machine each, capped
//	berth-<instance>/service           api, cell, hostd, PostgreSQL: more CPU weight than all machines together
//	berth-<instance>/resolver          answers machines' DNS questions, capped
//	berth-<instance>/secrets           puts secrets into machines' requests, capped
//	berth-<instance>/commands          runs of the runsc command line, emptied when hostd starts
package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

type Tree struct {
	name string
	v    version
}

// version is the interface of v1 and v2. dirs are absolute: one on v2, one for each controller on v1.
type version interface {
	prepare(group string, parents bool) error // makes the group; parents: its children need controllers
	dirs(group string) []string
	procsFile(group string) string
	setWeight(group string, percent int) error
	setLimits(group string, l Limits) error
	setMemory(group string, bytes int64) error // fails with EBUSY if the group uses more
	protect(group string, bytes int64) error   // memory that is not reclaimed for other groups
	freeze(ctx context.Context, group string, on bool) error
	frozen(group string) (bool, error)
	offerMemory(group string) error
	freezerFile(group string) string
	killAll(group string) error // sends SIGKILL once to all processes
	stats(group string) (Stats, error)
	rootProcs() string // file for processes that leave the tree; "" on v1
}

type Limits struct {
	CPUMillis     int
	MemoryBytes   int64
	Pids          int64
	WeightPercent int // CPU weight against other groups; 0 is 100
}

func (l Limits) weight() int { return cmp.Or(l.WeightPercent, 100) }

type Stats struct {
	CPUUsec     int64
	MemoryBytes int64 // without page cache that can be dropped at once
	OOMKills    int64
}

// These weights are in percent of the default. At a ratio of sixteen, machines at full load slow the service by a few
// percent.
const (
	machinesWeight = 25
	serviceWeight  = 400
)

var (
	namePattern     = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	instancePattern = regexp.MustCompile(`^[a-z0-9]{1,16}$`)
)

func Open(instance string) (*Tree, error) {
	v, err := detect()
	if err != nil {
		return nil, err
	}
	return open(v, instance)
}

func open(v version, instance string) (*Tree, error) {
	if !instancePattern.MatchString(instance) {
		return nil, fmt.Errorf("instance id %q is not allowed in a cgroup's name", instance)
	}
	t := &Tree{name: "berth-" + instance, v: v}
	groups := []struct {
		path    string
		parents bool
		weight  int
	}{{t.name, true, 100}, {t.machines(), true, machinesWeight}, {t.Service().path, false, serviceWeight}, {t.Resolver().path, false, 100},
		{t.SecretProxy().path, false, serviceWeight}, {t.Commands().path, false, serviceWeight}}
	for _, group := range groups {
		if err := v.prepare(group.path, group.parents); err != nil {
			return nil, fmt.Errorf("make cgroup %s: %w", group.path, err)
		}
		if err := v.setWeight(group.path, group.weight); err != nil {
			return nil, fmt.Errorf("weigh cgroup %s: %w", group.path, err)
		}
	}
	return t, nil
}

func (t *Tree) Create(slot string, l Limits) (*Group, error) {
	if !namePattern.MatchString(slot) {
		return nil, fmt.Errorf("slot name %q is not allowed in a cgroup's name", slot)
	}
	g := t.Get(slot)
	if err := t.v.prepare(g.path, false); err != nil {
		return nil, fmt.Errorf("make cgroup %s: %w", g.path, err)
	}
	if err := g.SetLimits(l); err != nil {
		return nil, err
	}
	return g, nil
}

// Get returns a machine's group, which may not exist.
func (t *Tree) Get(slot string) *Group {
	if !namePattern.MatchString(slot) {
		slot = ".invalid"
	}
	return &Group{v: t.v, path: filepath.Join(t.machines(), slot)}
}

// LimitMachines limits the memory of all machines; zero is no limit. It fails with EBUSY if they use more.
func (t *Tree) LimitMachines(bytes int64) error {
	if err := t.v.setMemory(t.machines(), bytes); err != nil {
		return fmt.Errorf("limit cgroup %s: %w", t.machines(), err)
	}
	return nil
}

// ProtectService keeps this much memory of the service from reclaim (v2 only).
func (t *Tree) ProtectService(bytes int64) error {
	for _, group := range []string{t.name, t.Service().path} { // the parent's protection limits that of the group
		if err := t.v.protect(group, bytes); err != nil {
			return fmt.Errorf("protect cgroup %s: %w", group, err)
		}
	}
	return nil
}

// List returns the slots of all machines' groups, including those that exist under one controller only.
func (t *Tree) List() ([]string, error) {
	seen, slots := map[string]bool{}, []string{}
	for _, dir := range t.v.dirs(t.machines()) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if entry.IsDir() && namePattern.MatchString(entry.Name()) && !seen[entry.Name()] {
				seen[entry.Name()] = true
				slots = append(slots, entry.Name())
			}
		}
	}
	return slots, nil
}

// Commands is for runs of runsc. Processes in it when hostd starts are orphans.
func (t *Tree) Commands() *Group { return &Group{v: t.v, path: filepath.Join(t.name, "commands")} }

// Resolver is the DNS resolver's group. It is not under hostd's, because the resolver outlives hostd.
func (t *Tree) Resolver() *Group { return &Group{v: t.v, path: filepath.Join(t.name, "resolver")} }

// SecretProxy is the secret proxy's group. It is not under hostd's, because the proxy outlives hostd.
func (t *Tree) SecretProxy() *Group { return &Group{v: t.v, path: filepath.Join(t.name, "secrets")} }

func (t *Tree) Service() *Group { return &Group{v: t.v, path: filepath.Join(t.name, "service")} }

// Remove kills machines and commands. It moves other processes, and a spawner's thread, out of the tree.
func (t *Tree) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	slots, err := t.List()
	if err != nil {
		return err
	}
	var failed error
	for _, slot := range slots {
		failed = errors.Join(failed, t.Get(slot).Kill(ctx), t.Get(slot).Delete())
	}
	failed = errors.Join(failed, t.Resolver().Kill(ctx), t.SecretProxy().Kill(ctx), t.Commands().Kill(ctx), t.moveOut(t.Service()), t.moveOut(t.Commands()))
	for _, path := range []string{t.machines(), t.Resolver().path, t.SecretProxy().path, t.Commands().path, t.Service().path, t.name} {
		failed = errors.Join(failed, (&Group{v: t.v, path: path}).Delete())
	}
	return failed
}

func (t *Tree) moveOut(g *Group) error {
	for _, dir := range t.v.dirs(g.path) {
		pids, err := readProcs(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return err
		}
		target := t.v.rootProcs()
		if target == "" { // v1: the root of the same controller
			target = filepath.Join(filepath.Dir(filepath.Dir(dir)), "cgroup.procs")
		}
		for _, pid := range pids {
			if err := write(target, strconv.Itoa(pid)); err != nil && !isGone(err) {
				return err
			}
		}
	}
	return nil
}

func (t *Tree) machines() string { return filepath.Join(t.name, "machines") }

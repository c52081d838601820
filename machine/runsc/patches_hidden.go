package main

const (
	mmMetadata = "gvisor.dev/gvisor/pkg/sentry/mm/metadata.go"
	ptrace     = "gvisor.dev/gvisor/pkg/sentry/kernel/ptrace.go"
	prctl      = "gvisor.dev/gvisor/pkg/sentry/syscalls/linux/sys_prctl.go"
)

// hiddenPatches let a process of the sandbox start others in a PID namespace of the guest without being looked into. Between vfork and
// execve a child shares its parent's memory; Linux and gVisor let root of the namespace that it is born in open that memory, the
// parent's executable and the child's descriptors. A process that says PR_SET_DUMPABLE 3 (machine/internal/agent/spawn does) can only be
// traced from the sandbox's own PID namespace, by whatever capabilities. The new memory of an execve is not hidden.
var hiddenPatches = []patch{
	{
		file: mmMetadata,
		old:  "\tRootDumpable\n)\n",
		new: `	RootDumpable

	// HiddenFromNamespaces is RootDumpable's neighbour that no system call of Linux knows: tasks of PID namespaces below the root one
	// may not trace whoever has this memory. It cannot be taken back.
	HiddenFromNamespaces
)
`,
	},
	{
		// A change of credentials makes memory not dumpable, which would end the hiding of a child that shares it.
		file: mmMetadata,
		old:  "\tmm.dumpability.Store(int32(d))\n",
		new: `	if mm.Dumpability() != HiddenFromNamespaces {
		mm.dumpability.Store(int32(d))
	}
`,
	},
	{
		file: prctl,
		old:  "\t\t\td = mm.UserDumpable\n",
		new: `			d = mm.UserDumpable
		case 3:
			if t.PIDNamespace() != t.Kernel().RootPIDNamespace() {
				return 0, nil, linuxerr.EINVAL
			}
			d = mm.HiddenFromNamespaces
`,
	},
	{
		file: prctl,
		old:  "\t\tcase mm.NotDumpable:\n",
		new:  "\t\tcase mm.NotDumpable, mm.HiddenFromNamespaces:\n",
	},
	{
		file: ptrace,
		old:  "\tcallerCreds := t.Credentials()\n\ttargetCreds := target.Credentials()\n\tif callerCreds.HasCapabilityIn(",
		new: `	var hidden bool
	target.WithMuLocked(func(t *Task) {
		memory := t.MemoryManager()
		hidden = memory != nil && memory.Dumpability() == mm.HiddenFromNamespaces
	})
	if hidden && t.PIDNamespace() != t.k.RootPIDNamespace() {
		return false
	}
	callerCreds := t.Credentials()
	targetCreds := target.Credentials()
	if callerCreds.HasCapabilityIn(`,
	},
}

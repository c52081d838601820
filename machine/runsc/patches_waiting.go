package main

// What a sandbox that waits for a restore does meanwhile: containerManager.Prepare.
var waitingPatches = []patch{
	{
		// What a restore takes, taken while nobody waits for it.
		//
		// A process of the guest needs a host process with two threads, each attached to and let go: a quarter of a restore. Those that the
		// old kernel gives back the new one finds in systrap's pool; all come from the stub that was forked before any filter, whenever they
		// do. Before the filters a process is started that takes /proc away, and what they forbid is done: pins, and the guest's memory.
		//
		// The objects need 7 MiB of heap. A page that is read before it is written faults twice, the second time with a word to every
		// processor. A run of the collector right after the touching frees it without giving it back; there is no other until the guest
		// starts, or the pages would go. And each type is asked for its methods once.
		file: controller,
		old:  "// StartRoot will start the root container process.\n",
		new: `// PrepareOpts says what to prepare a sandbox for that waits.
type PrepareOpts struct {
	AddressSpaces int
}

// Prepare takes ahead of need what Restore needs, in a sandbox that was created.
func (cm *containerManager) Prepare(o *PrepareOpts, _ *struct{}) error {
	cm.l.mu.Lock()
	defer cm.l.mu.Unlock()
	if cm.l.state != created {
		return fmt.Errorf("cannot prepare a container in state=%s", cm.l.state)
	}
	for range o.AddressSpaces {
		space, err := cm.l.k.Platform.NewAddressSpace()
		if err != nil {
			return err
		}
		defer space.Release()
	}
	if err := cm.l.pinRing.Finalize(); err != nil {
		log.Warningf("Cannot pin files to the pin ring: %v", err)
	}
	memory, err := createMemoryFile(cm.l.root.conf.AppHugePages, cm.l.hostTHP)
	if err != nil {
		return err
	}
	if err := cm.l.installSeccompFilters(); err != nil {
		return err
	}
	cm.l.preparedMF = memory
	cm.l.startSignalForwarding()
	objects.WarmTypes()
	godebug.SetGCPercent(noGCPercent)
	for range firstTouch >> 20 {
		mebibyte := make([]byte, 1<<20)
		for i := 0; i < len(mebibyte); i += hostPageBytes {
			mebibyte[i] = 1
		}
	}
	runtime.GC()
	return nil
}

// StartRoot will start the root container process.
`,
	},
	{
		file: controller,
		old:  "\t// Tell the root container to start and wait for the result.\n",
		new: `	godebug.SetGCPercent(gcPercent)
	if mf := cm.l.preparedMF; mf != nil {
		defer mf.Destroy()
	}
	// Tell the root container to start and wait for the result.
`,
	},
	{
		file: loader,
		old:  "\tPreSeccompCallback func()\n",
		new: `	PreSeccompCallback func()

	// preparedMF is for a restored kernel, and cannot be made any more: filters are installed where there is one. Such a kernel also takes
	// the platform of the one that was created.
	preparedMF *pgalloc.MemoryFile

	// forwardSignal is what is done with a signal, once there is a guest. +checklocks:mu
	forwardSignal func(linux.Signal)
`,
	},
	{
		file: loader,
		old:  "func (l *Loader) installSeccompFilters() error {\n",
		new:  "func (l *Loader) installSeccompFilters() error {\n\tif l.preparedMF != nil {\n\t\treturn nil\n\t}\n",
	},
	{
		// Each of 29 signals is a word to a thread of its own, and one back.
		file: loader,
		old:  "\tl.stopSignalForwarding = sighandling.StartSignalForwarding(func(sig linux.Signal) {\n",
		new:  "\tl.forwardSignal = func(sig linux.Signal) {\n",
	},
	{
		file: loader,
		old:  "\t})\n\tl.startupTimer.Reached(\"signal forwarding started\")\n",
		new:  "\t}\n\tl.startSignalForwarding()\n\tl.startupTimer.Reached(\"signal forwarding started\")\n",
	},
	{
		file: loader,
		old:  "// Run runs the root container.\n",
		new: `// startSignalForwarding does so once. Without a guest, signals have no effect.
func (l *Loader) startSignalForwarding() {
	if l.stopSignalForwarding != nil {
		return
	}
	l.stopSignalForwarding = sighandling.StartSignalForwarding(func(sig linux.Signal) {
		l.mu.Lock()
		forward := l.forwardSignal
		l.mu.Unlock()
		if forward != nil {
			forward(sig)
		}
	})
}

// Run runs the root container.
`,
	},
	{
		file: controller,
		old:  "\tcm.restorer.mainMF, err = createMemoryFile(cm.l.root.conf.AppHugePages, cm.l.hostTHP)\n",
		new: `	if cm.restorer.mainMF = cm.l.preparedMF; cm.restorer.mainMF == nil {
		cm.restorer.mainMF, err = createMemoryFile(cm.l.root.conf.AppHugePages, cm.l.hostTHP)
	}
`,
	},
	{
		file: "gvisor.dev/gvisor/runsc/boot/restore.go",
		old:  "\tp, err := createPlatform(l.root.conf, l.root.applicationCores, r.deviceFile, l.sandboxID, r.timer, &l.pinRing)\n\tif err != nil {\n",
		new: `	var err error
	p := l.k.Platform
	if l.preparedMF == nil {
		p, err = createPlatform(l.root.conf, l.root.applicationCores, r.deviceFile, l.sandboxID, r.timer, &l.pinRing)
	}
	if err != nil {
`,
	},
	{
		file: stateTypes,
		old:  "// Release releases references to global type databases.\n",
		new: `// WarmTypes looks every registered type's methods up, as the first decoding of each would.
func WarmTypes() {
	for _, typ := range globalTypeDatabase {
		value := reflect.Zero(reflect.PointerTo(typ)).Interface()
		_, _ = value.(SaverLoader)
		_, _ = value.(Type)
	}
}

// Release releases references to global type databases.
`,
	},
	{
		file: controller,
		old:  "\t\"gvisor.dev/gvisor/pkg/unet\"\n",
		new:  "\tobjects \"gvisor.dev/gvisor/pkg/state\"\n\t\"gvisor.dev/gvisor/pkg/unet\"\n",
	},
}

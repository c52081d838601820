package main

// How an image is written and read.
var imagePatches = []patch{
	{
		// A save looks for what is zero by reading every page that the guest may have written. Reading one that nobody ever wrote
		// makes the kernel allocate and clear it, and gVisor give it back: half of the save of a small guest, all of it with the
		// guest at a stand. The host knows which pages of the memory file exist: one in a hole has no byte but zero. A page that
		// was swapped out counts as existing (mincore would deny it), a question the host cannot answer too, and what exists is
		// compared as ever. Offsets only grow, and the guest stands still, so one extent is remembered.
		file: saveRestore,
		old:  "\tzeroPage := make([]byte, hostarch.PageSize)\n\t// f.mu is unlocked below",
		new: `	zeroPage := make([]byte, hostarch.PageSize)
	var dataStart, dataEnd uint64
	isHole := func(off uint64) bool {
		if off >= dataEnd {
			start, err := unix.Seek(int(f.file.Fd()), int64(off), unix.SEEK_DATA)
			if err == unix.ENXIO {
				dataStart, dataEnd = math.MaxUint64, math.MaxUint64
				return true
			}
			if err != nil {
				return false
			}
			end, err := unix.Seek(int(f.file.Fd()), start, unix.SEEK_HOLE)
			if err != nil {
				return false
			}
			dataStart, dataEnd = uint64(start), uint64(end)
		}
		return off < dataStart
	}
	// f.mu is unlocked below`,
	},
	{
		file: saveRestore,
		old:  "isZeroed := bytes.Equal(pg, zeroPage)",
		new:  "inHole := isHole(off)\n\t\t\t\tisZeroed := inHole || bytes.Equal(pg, zeroPage)",
	},
	{
		// What was not read was not allocated, so there is nothing to give back.
		file: saveRestore,
		old:  "\t\t\t\t\t\tdecommitAddPage(off)\n",
		new:  "\t\t\t\t\t\tif !inHole {\n\t\t\t\t\t\t\tdecommitAddPage(off)\n\t\t\t\t\t\t}\n",
	},
	{
		// 128 workers for a small guest's 6 MiB of pages: the threads, and the Go runtime's stop for as many processors more, took 17 ms
		// of a restore's 40 on two processors, beside which nothing else got to run. Four read as fast from the page cache, and keep a
		// disk as busy as its readahead does.
		file: "gvisor.dev/gvisor/pkg/sentry/state/stateio/pagesfile.go",
		old:  "return NewPagesFileFDReader(fd, pagesFileFDDefaultMaxIOBytes, pagesFileFDDefaultMaxParallel)",
		new:  "return NewPagesFileFDReader(fd, pagesFileFDDefaultMaxIOBytes, 4)",
	},
	{
		// Two looks at the clock for each of some 20,000 objects, for a table that is made and thrown away where nobody logs it.
		file: stateStats,
		old:  "\tlast := s.stack[len(s.stack)-1]\n\ts.sample(last)\n\ts.stack = append(s.stack, id)\n",
	},
	{
		file: stateStats,
		old:  "\tlast := s.stack[len(s.stack)-1]\n\ts.sample(last)\n\ts.byType[last].count++\n\ts.stack = s.stack[:len(s.stack)-1]\n",
	},
	{
		file: stateStats,
		old:  "\ts.names = make([]string, len(s.byType))\n\ts.names[0]",
		new:  "\tif len(s.byType) == 0 {\n\t\treturn\n\t}\n\ts.names = make([]string, len(s.byType))\n\ts.names[0]",
	},
	{
		file: stateStats,
		old:  "func (s *Stats) String() string {\n",
		new:  "func (s *Stats) String() string {\n\tif len(s.byType) == 0 {\n\t\treturn \"not taken\"\n\t}\n",
	},
	{
		// A save and a load allocate several times the heap of an idle sandbox, so that the collector runs again and again while the
		// guest stands still: a third of a small guest's save. It may wait for spareHeap more; its first run ends the patience.
		file: controller,
		old:  "func (cm *containerManager) Checkpoint(o *control.SaveOpts, _ *struct{}) error {\n",
		new: `const (
	spareHeap     = 64 << 20
	spareTime     = gtime.Second
	gcPercent     = 100 // Go's own, which gVisor leaves as it is
	noGCPercent   = -1
	firstTouch    = 12 << 20
	hostPageBytes = 4096
)

// patientCollector lasts a moment longer than what asked for it: its end is a run of the collector, and the guest has only just come back.
func patientCollector() (end func()) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := gcPercent + int(spareHeap*100/max(live[0].Value.Uint64(), 1<<20))
	godebug.SetGCPercent(percent)
	first := new([16]byte)
	runtime.SetFinalizer(first, func(*[16]byte) { godebug.SetGCPercent(gcPercent) })
	return func() { gtime.AfterFunc(spareTime, func() { godebug.SetGCPercent(gcPercent) }) }
}

func (cm *containerManager) Checkpoint(o *control.SaveOpts, _ *struct{}) error {
	defer patientCollector()()
`,
	},
	{
		file: controller,
		old:  "\ttimer := starttime.Timer(\"Restore\")\n\ttimer.Reached(\"cm.Restore RPC\")\n",
		new:  "\tdefer patientCollector()()\n\ttimer := starttime.Timer(\"Restore\")\n\ttimer.Reached(\"cm.Restore RPC\")\n",
	},
	{
		file: controller,
		old:  "\t\"path\"\n",
		new:  "\t\"path\"\n\t\"runtime\"\n\tgodebug \"runtime/debug\"\n\t\"runtime/metrics\"\n",
	},
	{
		// Parsing takes as long as making objects of what was parsed, and needs nothing of it: each has a processor.
		file: stateDecode,
		old:  "\t\tfor i := uint64(0); i < numObjects; {\n\t\t\t// Unmarshal either a type object or object ID.\n\t\t\tencoded = wire.Load(&ds.r)\n",
		new: `		next, stop := ds.parse(numObjects)
		defer stop()
		for i := uint64(0); i < numObjects; {
			// Unmarshal either a type object or object ID.
			encoded = next()
`,
	},
	{
		file: stateDecode,
		old:  "\t\t\t\t// Unmarshal and resolve the actual object.\n\t\t\t\tencoded = wire.Load(&ds.r)\n",
		new:  "\t\t\t\t// Unmarshal and resolve the actual object.\n\t\t\t\tencoded = next()\n",
	},
	{
		file: stateDecode,
		old:  "// Load deserializes the object graph rooted at obj.\n",
		new: `// parse reads so many objects of the stream, with their types and numbers, ahead of the decoding. What next panics with is what the
// reading ended with. After stop nothing reads the stream.
func (ds *decodeState) parse(numObjects uint64) (next func() wire.Object, stop func()) {
	const batchLen, batchesAhead = 64, 16
	batches, stopped := make(chan []wire.Object, batchesAhead), make(chan struct{})
	var failure error
	go func() {
		defer close(batches)
		var batch []wire.Object
		send := func() (goOn bool) {
			select {
			case batches <- batch:
				batch = make([]wire.Object, 0, batchLen+1)
				return true
			case <-stopped:
				return false
			}
		}
		failure = safely(func() {
			for i := uint64(0); i < numObjects; {
				encoded := wire.Load(&ds.r)
				batch = append(batch, encoded)
				if _, isID := encoded.(wire.Uint); isID {
					i++
					batch = append(batch, wire.Load(&ds.r))
				}
				if len(batch) >= batchLen && !send() {
					return
				}
			}
		})
		send()
	}()
	var batch []wire.Object
	next = func() wire.Object {
		for len(batch) == 0 {
			var ok bool
			if batch, ok = <-batches; !ok {
				panic(failure)
			}
		}
		encoded := batch[0]
		batch = batch[1:]
		return encoded
	}
	return next, func() {
		close(stopped)
		for range batches {
		}
	}
}

// Load deserializes the object graph rooted at obj.
`,
	},
	{
		// Numbers are read byte by byte: through one call then, not through three readers and a slice.
		file: "gvisor.dev/gvisor/pkg/state/wire/wire.go",
		old:  "\tn, err := r.Read(r.buf[:])\n\tif n != 1 {\n",
		new: `	if source, ok := r.Reader.(io.ByteReader); ok {
		b, err := source.ReadByte()
		if err != nil {
			panic(err)
		}
		return b
	}
	n, err := r.Read(r.buf[:])
	if n != 1 {
`,
	},
	{
		file: "gvisor.dev/gvisor/pkg/compressio/nocompressio.go",
		old:  "// Read implements io.Reader.Read.\nfunc (r *SimpleReader) Read(",
		new: `// ReadByte implements io.ByteReader.ReadByte.
func (r *SimpleReader) ReadByte() (byte, error) {
	if r.h == nil {
		return r.bin.ReadByte()
	}
	var one [1]byte
	_, err := io.ReadFull(r, one[:])
	return one[0], err
}

// Read implements io.Reader.Read.
func (r *SimpleReader) Read(`,
	},
	{
		// Every endpoint that a save finds is on this list until the saved guest goes on. In the image it stayed there for good: each
		// suspend added the connections of its time to every later image of the workspace.
		file: "gvisor.dev/gvisor/pkg/tcpip/stack/stack.go",
		old:  "\teps := s.restoredEndpoints\n\ts.restoredEndpoints = nil\n",
		new:  "\teps := s.restoredEndpoints\n\ts.restoredEndpoints = nil\n\ts.resumableEndpoints = nil\n",
	},
}

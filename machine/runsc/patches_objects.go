package main

// How the objects of a kernel are written, and which.
var objectPatches = []patch{
	{
		// Half of an image's objects are structures with nothing in them, most of them parts of the inodes of /proc and /sys, and half of
		// the rest are numbers in a structure of their own. Each was written with its type and all its parts, and read by looking all that
		// up again. A number is written as one, and nothing as nothing, as the encoder does with every plain value that is zero.
		//
		// That is right only for types whose saving and loading does nothing else: briefTypes checks it when this is built.
		file: stateEncode,
		old:  "// encodeStrategy is the strategy used for encodeObject.\n",
		new: `// brevity says how a structure may be written in fewer words than its parts.
type brevity int

const (
	inFull brevity = iota
	nilWhenZero
	asNumber
)

var briefTypes = map[string]brevity{
` + briefTable() + `}

// brevities remembers what was found of each type. The zero value is not usable.
type brevities map[reflect.Type]brevity

func (known brevities) of(typ reflect.Type) brevity {
	b, ok := known[typ]
	if !ok {
		if named, is := reflect.Zero(reflect.PointerTo(typ)).Interface().(Type); is {
			b = briefTypes[named.StateTypeName()]
		}
		known[typ] = b
	}
	return b
}

// numberIn is the last field, which holds the value.
func numberIn(obj reflect.Value) reflect.Value { return obj.Field(obj.NumField() - 1) }

// encodeBriefly says whether it has written obj. The elements of an array are all of one kind on the wire, so that none may be nil.
func (es *encodeState) encodeBriefly(obj reflect.Value, how encodeStrategy, dest *wire.Object) bool {
	switch b := es.brevities.of(obj.Type()); {
	case b != inFull && how == encodeDefault && obj.IsZero():
		*dest = wire.Nil{}
	case b == asNumber && numberIn(obj).CanInt():
		*dest = wire.Int(numberIn(obj).Int())
	case b == asNumber:
		*dest = wire.Uint(numberIn(obj).Uint())
	default:
		return false
	}
	return true
}

// encodeStrategy is the strategy used for encodeObject.
`,
	},
	{
		file: stateEncode,
		old:  "\tcase reflect.Struct:\n\t\tes.encodeStruct(obj, dest)\n",
		new:  "\tcase reflect.Struct:\n\t\tif !es.encodeBriefly(obj, how, dest) {\n\t\t\tes.encodeStruct(obj, dest)\n\t\t}\n",
	},
	{
		// Each byte of the network's buffers was an object of its own: sixty thousand.
		file: stateEncode,
		old:  "\tl := obj.Len()\n\ta := &wire.Array{\n",
		new: `	l := obj.Len()
	if l > 0 && obj.Type().Elem().Kind() == reflect.Uint8 && obj.CanAddr() {
		bytes := wire.String(obj.Bytes())
		*dest = &bytes
		return
	}
	a := &wire.Array{
`,
	},
	{
		file: stateEncode,
		old:  "\t// stats tracks time data.\n\tstats Stats\n",
		new:  "\tbrevities brevities\n\n\t// stats tracks time data.\n\tstats Stats\n",
	},
	{
		file: stateDecode,
		old:  "\t\tobj.SetInt(int64(x))\n",
		new:  "\t\tobj = ds.number(obj)\n\t\tobj.SetInt(int64(x))\n",
	},
	{
		file: stateDecode,
		old:  "\t\tobj.SetUint(uint64(x))\n",
		new:  "\t\tobj = ds.number(obj)\n\t\tobj.SetUint(uint64(x))\n",
	},
	{
		file: stateDecode,
		old:  "\t\tobj.SetString(string(*x))\n",
		new: `		if obj.Kind() == reflect.Array {
			if len(*x) != obj.Len() {
				Failf("mismatching array length expect=%d, actual=%d", obj.Len(), len(*x))
			}
			reflect.Copy(obj, reflect.ValueOf(string(*x)))
			return
		}
		obj.SetString(string(*x))
`,
	},
	{
		// An assignment to an interface compares all methods of both types, by their names, each time.
		file: stateDecode,
		old:  "\tdefer origObj.Set(obj)\n",
		new:  "\tdefer ds.setInterface(origObj, obj)\n",
	},
	{
		file: stateDecode,
		old:  "\t// stats tracks time data.\n\tstats Stats\n",
		new: `	brevities brevities

	// methods are the method tables of assignments to interfaces that were made.
	methods map[assignment]unsafe.Pointer

	// stats tracks time data.
	stats Stats
`,
	},
	{
		file: stateDecode,
		old:  "\t\"reflect\"\n",
		new:  "\t\"reflect\"\n\t\"unsafe\"\n",
	},
	{
		file: "gvisor.dev/gvisor/pkg/state/decode_unsafe.go",
		old:  "// reflectValueRWAddr is equivalent to",
		new: `// number is where a number goes: into obj, or into the structure's field for it, which is not exported.
func (ds *decodeState) number(obj reflect.Value) reflect.Value {
	if obj.Kind() != reflect.Struct || ds.brevities.of(obj.Type()) != asNumber {
		return obj
	}
	return reflectValueRWAddr(numberIn(obj)).Elem()
}

// An assignment is of a pointer of one type to an interface of another.
type assignment struct{ to, of reflect.Type }

// setInterface is to.Set(of). An interface with methods is two words, a table for both types and the pointer; the table is known
// after the first assignment.
func (ds *decodeState) setInterface(to, of reflect.Value) {
	if of.Kind() != reflect.Ptr || to.NumMethod() == 0 || !to.CanAddr() {
		to.Set(of)
		return
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(to.UnsafeAddr()))
	between := assignment{to.Type(), of.Type()}
	if table, ok := ds.methods[between]; ok {
		words[0], words[1] = table, of.UnsafePointer()
		return
	}
	to.Set(of)
	ds.methods[between] = words[0]
}

// reflectValueRWAddr is equivalent to`,
	},
	{
		file: stateState,
		old:  "\t\tencodedStructs: make(map[reflect.Value]*wire.Struct),\n",
		new:  "\t\tencodedStructs: make(map[reflect.Value]*wire.Struct),\n\t\tbrevities:      make(brevities),\n",
	},
	{
		file: stateState,
		old:  "\t\tdeferred: make(map[objectID]wire.Object),\n",
		new: "\t\tdeferred: make(map[objectID]wire.Object),\n" +
			"\t\tbrevities: make(brevities),\n\t\tmethods: make(map[assignment]unsafe.Pointer),\n",
	},
	{
		file: stateState,
		old:  "\t\"reflect\"\n",
		new:  "\t\"reflect\"\n\t\"unsafe\"\n",
	},
	{
		// It sorts the names of the fields of each type, at every save and load, to look for one that is there twice. They come out of a
		// generator; a load compares the image's with its own besides.
		file: stateTypes,
		old:  "func assertValidType(name string, fields []string) {\n",
		new:  "func assertValidType(name string, fields []string) {\n\tif !raceEnabled {\n\t\treturn\n\t}\n",
	},
	{
		// Thirty inodes for each process that somebody looked at in /proc were kept for the next look, and went into the image.
		file: "gvisor.dev/gvisor/pkg/sentry/fsimpl/kernfs/filesystem.go",
		old:  "// Release implements vfs.FilesystemImpl.Release.\n",
		new: `// EvictCached lets go of every dentry that is only kept for the next one to ask.
func (fs *Filesystem) EvictCached(ctx context.Context) {
	defer fs.processDeferredDecRefs(ctx)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for fs.cachedDentriesLen != 0 {
		fs.evictCachedDentryLocked(ctx)
	}
}

// Release implements vfs.FilesystemImpl.Release.
`,
	},
	{
		file: "gvisor.dev/gvisor/pkg/sentry/fsimpl/proc/filesystem.go",
		old:  "// MountOptions implements vfs.FilesystemImpl.MountOptions.\n",
		new: `// PrepareSave implements vfs.FilesystemImplSaveRestoreExtension.PrepareSave.
func (fs *filesystem) PrepareSave(ctx context.Context) error {
	fs.EvictCached(ctx)
	return nil
}

// BeforeResume implements vfs.FilesystemImplSaveRestoreExtension.BeforeResume.
func (*filesystem) BeforeResume(context.Context) {}

// CompleteRestore implements vfs.FilesystemImplSaveRestoreExtension.CompleteRestore.
func (*filesystem) CompleteRestore(context.Context, vfs.CompleteRestoreOptions) error { return nil }

// MountOptions implements vfs.FilesystemImpl.MountOptions.
`,
	},
}

package wire

// Layers of templates:
//
//	POST /layers/make    LayerRequest -> Layer    makes a layer from a captured disk; not_found, already_running, layer_refused, no_space
//	POST /layers/list    LayerListRequest -> LayerList    lists part of a layer; layer_missing, layer_refused
//	POST /layers/keep    LayersKept -> {}    checks layers before they are referenced, and protects them for a while; layer_missing
//	GET  /layers         -> LayersHere    lists all layers
//	POST /layers/drop    LayersDrop -> LayersDropped    removes unreferenced layers

// LayerRequest makes one image of the files that a disk has above its layers. The header's subject is the one that the layer is made for;
// the disk may be another subject's. The same disk always gives the same image.
type LayerRequest struct {
	Fence
	// Of names the checkpoint that has the disk, with or without memory.
	Of *CheckpointName `json:"of,omitempty"`
	// Disk names a disk of the caller's own subject instead, whose machine has ended, with the layers below it.
	Disk   string   `json:"disk,omitempty"`
	Layers []string `json:"layers,omitempty"`
	// Root is an absolute directory of such a disk that becomes the layer's root; absent: the whole disk.
	Root string `json:"root,omitempty"`
	// Whole makes an image of everything that a machine on the disk would see, including the layers below.
	Whole bool `json:"whole,omitempty"`
	// Drop names absolute paths to omit. A path that ends with "/" means everything in that directory, "*" any name.
	Drop []string `json:"drop,omitempty"`
	// Scan searches the files for secrets.
	Scan bool `json:"scan,omitempty"`
	// BytesMax bounds the size of the files and of the image, EntriesMax the number of names.
	BytesMax   int64 `json:"bytes_max"`
	EntriesMax int   `json:"entries_max"`
}

type Layer struct {
	Digest    string `json:"digest"` // SHA-256 in hex, as named by a start
	SizeBytes int64  `json:"size_bytes"`
	Entries   int    `json:"entries"`
	// Findings are in the order of their paths. If there are more than LayerFindingsMax, one finding says so.
	Findings []LayerFinding `json:"findings"`
}

const LayerFindingsMax = 1000

// LayerFinding is the location of a possible secret. The secret itself is never reported.
type LayerFinding struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
	Line int    `json:"line"`
}

const (
	FindingTooMany    = "too_many_findings"
	FindingNotScanned = "not_scanned" // some files were not scanned
)

// Reasons for a refused layer: `why` in the details of layer_refused.
const (
	LayerTooLarge       = "too_large"
	LayerTooManyEntries = "too_many_entries"
	LayerPathTooLong    = "path_too_long"
)

// LayerListRequest lists a layer's own content, directory by directory.
type LayerListRequest struct {
	Layer string `json:"layer"`
	// After is the last directory of the previous answer; "" begins with the root.
	After string `json:"after"`
}

// LayerList is a part of the list. The directories are in the order of a walk with byte-sorted names.
type LayerList struct {
	Directories []LayerDirectory `json:"directories"`
	Done        bool             `json:"done"`
}

// LayerDirectory has all direct entries of one directory of a layer.
type LayerDirectory struct {
	Path    string       `json:"path"`
	Entries []LayerEntry `json:"entries"`
}

// LayerEntry is one name in a layer. A whiteout hides the name in the layers below.
type LayerEntry struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // file, directory, symlink, whiteout, other
	SizeBytes int64  `json:"size_bytes"`
	Mode      uint32 `json:"mode"` // permissions, with setuid, setgid and sticky
	UID       uint32 `json:"uid"`
	GID       uint32 `json:"gid"`
	SHA256    string `json:"sha256,omitempty"` // of a file
	Target    string `json:"target,omitempty"` // of a link
	// Opaque hides the directory's content in the layers below. Redirect is the name or path that the directory has there.
	Opaque   bool   `json:"opaque,omitempty"`
	Redirect string `json:"redirect,omitempty"`
}

// Bounds of one answer: it ends with the directory that reaches one. A directory with more entries than LayerDirectoryMax is refused.
const (
	LayerListEntries  = 5000
	LayerListBytes    = 256 << 20
	LayerDirectoryMax = 100_000
)

// LayersKept are layers that the caller is about to reference. hostd checks that they are whole, and removes none within
// idle_seconds_min.
type LayersKept struct {
	Layers []string `json:"layers"`
}

// LayersHere is one listing of the layers' directory.
type LayersHere struct {
	// Listing names the listing. A later removal of unreferenced layers must name it.
	Listing string      `json:"listing"`
	Layers  []LayerHere `json:"layers"`
}

// LayerHere is one image. IdleSeconds is the time since this process was last asked for it.
type LayerHere struct {
	Digest      string `json:"digest"`
	SizeBytes   int64  `json:"size_bytes"`
	IdleSeconds int64  `json:"idle_seconds"`
}

// LayersDrop removes layers. It spares those that a machine or checkpoint here uses, and those requested since the listing or within
// idle_seconds_min. A listing of another process removes nothing.
type LayersDrop struct {
	Listing        string   `json:"listing"`
	Layers         []string `json:"layers"`
	IdleSecondsMin int64    `json:"idle_seconds_min"`
}

// LayersDropped were removed, or were not here.
type LayersDropped struct {
	Dropped []string `json:"dropped"`
}

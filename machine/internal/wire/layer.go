package wire

// LayerRequest makes one image of the files that a disk has above its layers, always the same for the same disk. The
// header's subject gets the layer; the disk may be another subject's.
type LayerRequest struct {
	Fence
	// Of is the checkpoint with the disk, with or without memory.
	Of *CheckpointName `json:"of,omitempty"`
	// Disk is instead a disk of the caller's subject, whose machine has ended, with the layers below it.
	Disk   string   `json:"disk,omitempty"`
	Layers []string `json:"layers,omitempty"`
	// Root is an absolute directory of Disk that becomes the layer's root; absent: the whole disk.
	Root string `json:"root,omitempty"`
	// Whole images everything that a machine on the disk would see, including the layers below.
	Whole bool `json:"whole,omitempty"`
	// Drop has absolute paths to omit. A final "/" means everything in that directory, "*" any name.
	Drop []string `json:"drop,omitempty"`
	Scan bool     `json:"scan,omitempty"`
	// BytesMax bounds the files and the image, EntriesMax the names.
	BytesMax   int64 `json:"bytes_max"`
	EntriesMax int   `json:"entries_max"`
}

type Layer struct {
	Digest    string `json:"digest"` // SHA-256 in hex, as named by a start
	SizeBytes int64  `json:"size_bytes"`
	Entries   int    `json:"entries"`
	// Findings are in path order. Beyond LayerFindingsMax, one finding says so.
	Findings []LayerFinding `json:"findings"`
}

const LayerFindingsMax = 1000

// LayerFinding locates a possible secret. The secret itself is never reported.
type LayerFinding struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
	Line int    `json:"line"`
}

const (
	FindingTooMany    = "too_many_findings"
	FindingNotScanned = "not_scanned" // some files were not scanned
)

// Reasons of a layer_refused, `why` in its details.
const (
	LayerTooLarge       = "too_large"
	LayerTooManyEntries = "too_many_entries"
	LayerPathTooLong    = "path_too_long"
)

// LayerListRequest lists a layer's own content.
type LayerListRequest struct {
	Layer string `json:"layer"`
	// After is the last directory of the previous answer; "" begins with the root.
	After string `json:"after"`
}

// LayerList has directories in the order of a walk with byte-sorted names.
type LayerList struct {
	Directories []LayerDirectory `json:"directories"`
	Done        bool             `json:"done"`
}

// LayerDirectory has all direct entries.
type LayerDirectory struct {
	Path    string       `json:"path"`
	Entries []LayerEntry `json:"entries"`
}

// LayerEntry is one name. A whiteout hides it in the layers below.
type LayerEntry struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // file, directory, symlink, whiteout, other
	SizeBytes int64  `json:"size_bytes"`
	Mode      uint32 `json:"mode"` // permissions, with setuid, setgid and sticky
	UID       uint32 `json:"uid"`
	GID       uint32 `json:"gid"`
	SHA256    string `json:"sha256,omitempty"` // of a file
	Target    string `json:"target,omitempty"` // of a link
	// Opaque hides the directory's content in the layers below; Redirect is its name or path there.
	Opaque   bool   `json:"opaque,omitempty"`
	Redirect string `json:"redirect,omitempty"`
}

// Bounds of one answer: it ends with the directory that reaches one. A directory beyond LayerDirectoryMax is refused.
const (
	LayerListEntries  = 5000
	LayerListBytes    = 256 << 20
	LayerDirectoryMax = 100_000
)

// LayersKept is about to be referenced. hostd checks that the layers are whole, and removes none within
// idle_seconds_min.
type LayersKept struct {
	Layers []string `json:"layers"`
}

// LayersHere lists the layers' directory.
type LayersHere struct {
	// Listing must be named by a later removal of unreferenced layers.
	Listing string      `json:"listing"`
	Layers  []LayerHere `json:"layers"`
}

// LayerHere is idle since this process was last asked for it.
type LayerHere struct {
	Digest      string `json:"digest"`
	SizeBytes   int64  `json:"size_bytes"`
	IdleSeconds int64  `json:"idle_seconds"`
}

// LayersDrop spares layers that a machine or checkpoint here uses, and those requested since the listing or within
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

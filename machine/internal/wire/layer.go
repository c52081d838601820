package wire

// LayerRequest makes one image of a disk's files above its layers, always the same. The header's subject gets it; the
// disk may be another's.
type LayerRequest struct {
	Fence
	// Of is the checkpoint with the disk.
	Of *CheckpointName `json:"of,omitempty"`
	// Disk is instead the subject's own, whose machine has ended, above Layers.
	Disk   string   `json:"disk,omitempty"`
	Layers []string `json:"layers,omitempty"`
	// Root is an absolute directory of Disk; absent: all of it.
	Root string `json:"root,omitempty"`
	// Whole includes the layers below.
	Whole bool `json:"whole,omitempty"`
	// Drop has absolute paths. A final "/" means everything in that directory, "*" any name.
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
	// Findings are in path order; beyond LayerFindingsMax one says so.
	Findings []LayerFinding `json:"findings"`
}

const LayerFindingsMax = 1000

// LayerFinding never has the secret itself.
type LayerFinding struct {
	Path string `json:"path"`
	Rule string `json:"rule"`
	Line int    `json:"line"`
}

const (
	FindingTooMany    = "too_many_findings"
	FindingNotScanned = "not_scanned" // some files were not scanned
)

// Reasons of layer_refused, `why` in its details.
const (
	LayerTooLarge       = "too_large"
	LayerTooManyEntries = "too_many_entries"
	LayerPathTooLong    = "path_too_long"
)

// LayerListRequest lists a layer's own content.
type LayerListRequest struct {
	Layer string `json:"layer"`
	// After is the previous answer's last directory; "": the root.
	After string `json:"after"`
}

// LayerList is in a walk's order by byte-sorted names.
type LayerList struct {
	Directories []LayerDirectory `json:"directories"`
	Done        bool             `json:"done"`
}

// LayerDirectory has all direct entries.
type LayerDirectory struct {
	Path    string       `json:"path"`
	Entries []LayerEntry `json:"entries"`
}

// LayerEntry is one name, which a whiteout hides in the layers below.
type LayerEntry struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // file, directory, symlink, whiteout, other
	SizeBytes int64  `json:"size_bytes"`
	Mode      uint32 `json:"mode"` // permissions, with setuid, setgid and sticky
	UID       uint32 `json:"uid"`
	GID       uint32 `json:"gid"`
	SHA256    string `json:"sha256,omitempty"` // of a file
	Target    string `json:"target,omitempty"` // of a link
	// Opaque hides the content in the layers below; Redirect is the directory's name or path there.
	Opaque   bool   `json:"opaque,omitempty"`
	Redirect string `json:"redirect,omitempty"`
}

// An answer ends with the directory that reaches a bound. A directory beyond LayerDirectoryMax is refused.
const (
	LayerListEntries  = 5000
	LayerListBytes    = 256 << 20
	LayerDirectoryMax = 100_000
)

// LayersKept is about to be referenced. hostd checks that it is whole, and removes none within idle_seconds_min.
type LayersKept struct {
	Layers []string `json:"layers"`
}

// LayersHere lists the layers' directory.
type LayersHere struct {
	// Listing is named by a later LayersDrop.
	Listing string      `json:"listing"`
	Layers  []LayerHere `json:"layers"`
}

// LayerHere is idle since this process was last asked for it.
type LayerHere struct {
	Digest      string `json:"digest"`
	SizeBytes   int64  `json:"size_bytes"`
	IdleSeconds int64  `json:"idle_seconds"`
}

// LayersDrop spares layers in use here, and those requested since the listing or within idle_seconds_min. Another
// process's listing removes nothing.
type LayersDrop struct {
	Listing        string   `json:"listing"`
	Layers         []string `json:"layers"`
	IdleSecondsMin int64    `json:"idle_seconds_min"`
}

// LayersDropped were removed, or were not here.
type LayersDropped struct {
	Dropped []string `json:"dropped"`
}

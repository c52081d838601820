package wire

// Layers of templates:
//
//	POST /layers/make    LayerRequest -> Layer    a layer of what a captured disk holds; not_found, already_running, layer_refused, no_space
//	POST /layers/list    LayerListRequest -> LayerList    a piece of what a layer holds; layer_missing, layer_refused
//	POST /layers/keep    LayersKept -> {}    whoever is about to name layers finds them whole, and not about to go; layer_missing
//	GET  /layers         -> LayersHere    all layers that are here
//	POST /layers/drop    LayersDrop -> LayersDropped    removes layers that nothing names

// LayerRequest makes one image of what lies on a disk above its layers. The caller speaks for what the layer is made for; the disk may be
// another subject's. The same disk gives the same image, whoever asks, and however often.
type LayerRequest struct {
	Fence
	// Of is the checkpoint whose disk it is, with or without memory.
	Of *CheckpointName `json:"of,omitempty"`
	// Disk names a disk of the caller's own subject instead, whose machine has ended, with the layers below it.
	Disk   string   `json:"disk,omitempty"`
	Layers []string `json:"layers,omitempty"`
	// Root is a directory of such a disk that becomes the layer's root, absolute; absent: all of the disk.
	Root string `json:"root,omitempty"`
	// Whole makes an image of all that a machine on the disk would see. It stands for the layers below, too.
	Whole bool `json:"whole,omitempty"`
	// Drop names what is left out, by absolute paths: a path that ends with "/" stands for all that is in that directory, "*" for any name.
	Drop []string `json:"drop,omitempty"`
	// Scan looks for what looks like a secret in the files.
	Scan bool `json:"scan,omitempty"`
	// BytesMax bounds what the files hold and the image, EntriesMax how many names there are.
	BytesMax   int64 `json:"bytes_max"`
	EntriesMax int   `json:"entries_max"`
}

// Layer is an image that is durable in the layers' directory.
type Layer struct {
	Digest    string `json:"digest"` // SHA-256 in hex: what machines are started with
	SizeBytes int64  `json:"size_bytes"`
	Entries   int    `json:"entries"`
	// Findings are in the order of their paths, LayerFindingsMax at most: more are one that says so.
	Findings []LayerFinding `json:"findings"`
}

// LayerFindingsMax bounds the answer.
const LayerFindingsMax = 1000

// LayerFinding is where something looks like a secret. What it is is never said.
type LayerFinding struct {
	Path string `json:"path"` // absolute
	Rule string `json:"rule"`
	Line int    `json:"line"`
}

// Rules of findings that are about the scan itself.
const (
	FindingTooMany    = "too_many_findings"
	FindingNotScanned = "not_scanned" // there is more than is scanned
)

// Why a layer is refused: `why` in the details of layer_refused.
const (
	LayerTooLarge       = "too_large"
	LayerTooManyEntries = "too_many_entries"
	LayerPathTooLong    = "path_too_long"
)

// LayerListRequest asks for what a layer holds by itself, directory by directory.
type LayerListRequest struct {
	Layer string `json:"layer"`
	// After is the directory whose entries came last; "" begins with the root.
	After string `json:"after"`
}

// LayerList is a piece of the list. The directories are in the order of a walk whose names are sorted by their bytes.
type LayerList struct {
	Directories []LayerDirectory `json:"directories"`
	Done        bool             `json:"done"`
}

// LayerDirectory has all that lies directly in one directory of a layer.
type LayerDirectory struct {
	Path    string       `json:"path"` // absolute
	Entries []LayerEntry `json:"entries"`
}

// LayerEntry is what a layer has under one name. A whiteout says that there is nothing of that name, whatever lies below.
type LayerEntry struct {
	Name      string `json:"name"`
	Type      string `json:"type"` // file, directory, symlink, whiteout, other
	SizeBytes int64  `json:"size_bytes"`
	Mode      uint32 `json:"mode"` // permissions, with setuid, setgid and sticky
	UID       uint32 `json:"uid"`
	GID       uint32 `json:"gid"`
	SHA256    string `json:"sha256,omitempty"` // of a file
	Target    string `json:"target,omitempty"` // of a link
	// Opaque: what the layers below have in this directory is not seen. Redirect: they have it under this name, or path.
	Opaque   bool   `json:"opaque,omitempty"`
	Redirect string `json:"redirect,omitempty"`
}

// Bounds of one answer: the directory that reaches one is its last. A directory with more entries than LayerDirectoryMax is refused.
const (
	LayerListEntries  = 5000
	LayerListBytes    = 256 << 20
	LayerDirectoryMax = 100_000
)

// LayersKept are layers that somebody is about to name. They are whole, and none of them is removed within idle_seconds_min from then.
type LayersKept struct {
	Layers []string `json:"layers"`
}

// LayersHere is one look at the layers' directory.
type LayersHere struct {
	// Listing names the look. Who then finds out what nothing names asks for its removal under this name.
	Listing string      `json:"listing"`
	Layers  []LayerHere `json:"layers"`
}

// LayerHere is one image. Nobody has asked this process for it for so long.
type LayerHere struct {
	Digest      string `json:"digest"`
	SizeBytes   int64  `json:"size_bytes"`
	IdleSeconds int64  `json:"idle_seconds"`
}

// LayersDrop removes layers, but those that a machine or a checkpoint of this computer stands on, that somebody has asked for since the
// look, or within the last idle_seconds_min. A look of another process removes nothing.
type LayersDrop struct {
	Listing        string   `json:"listing"`
	Layers         []string `json:"layers"`
	IdleSecondsMin int64    `json:"idle_seconds_min"`
}

// LayersDropped are not here, or not any more.
type LayersDropped struct {
	Dropped []string `json:"dropped"`
}

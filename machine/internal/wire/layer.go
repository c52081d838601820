package wire

// Layers of templates:
//
//	POST /layers/make    LayerRequest -> Layer    a layer of what a captured disk holds; not_found, already_running, layer_refused, no_space

// LayerRequest makes one image of what lies on a disk above its layers. The caller speaks for what the layer is made for; the disk may be
// another subject's. The same disk gives the same image, whoever asks, and however often.
type LayerRequest struct {
	Fence
	// Of is the checkpoint whose disk it is, with or without memory.
	Of *CheckpointName `json:"of,omitempty"`
	// Disk names a disk of the caller's own subject instead, whose machine has ended, with the layers below it.
	Disk   string   `json:"disk,omitempty"`
	Layers []string `json:"layers,omitempty"`
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

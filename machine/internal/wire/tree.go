package wire

// A tree, and a command's changes to it, travel as entries: a line of JSON each, then a file's content. Paths are
// relative to the guest's /home/user; "" is the root.
//
//	/trees/apply    TreeApplyRequest, then TreeEntry...   updates the kept copy of a subject's tree
//	/trees/changes  -> TreeEntry...                        of the ended machine; carries no fence
//
// The kept copy is a cache: a start on another is refused with tree_stale, which names the kept one.

// TreeApplyRequest is the first line; differences from the kept copy follow.
type TreeApplyRequest struct {
	Fence
	From    string   `json:"from,omitempty"` // the copy that they apply to; "" makes a new one
	To      string   `json:"to"`
	Layers  []string `json:"layers"` // determine the owner of files in /home/user
	DiskGiB int      `json:"disk_gib"`
}

// TreeChangesRequest names an ended machine's disk.
type TreeChangesRequest struct {
	Subject    `json:"subject"`
	Disk       string   `json:"disk"`
	Layers     []string `json:"layers"`
	Tree       bool     `json:"tree"` // the machine was started on a tree
	BytesMax   int64    `json:"bytes_max"`
	EntriesMax int64    `json:"entries_max"`
}

const (
	TreeFile      = "file"
	TreeDirectory = "directory" // an existing directory stays; an opaque one replaces anything at the path
	TreeSymlink   = "symlink"
	TreeRemove    = "remove"  // also if nothing is there
	TreeRefused   = "refused" // instead of an end: the rest cannot be represented, with the reason
	TreeEnd       = "end"
)

// TreeEntry is the state of one path. A directory comes before its content.
type TreeEntry struct {
	Path       string `json:"path"`
	Type       string `json:"type"`
	Mode       uint32 `json:"mode,omitempty"`
	ModifiedMS int64  `json:"modified_ms,omitempty"`
	Size       int64  `json:"size,omitempty"` // of the content that follows
	Target     string `json:"target,omitempty"`
	Opaque     bool   `json:"opaque,omitempty"`
	Why        string `json:"why,omitempty"`
}

const (
	TreeNameNotUTF8    = "name_not_utf8"
	TreePathTooLong    = "path_too_long"
	TreeTooLarge       = "too_large"
	TreeTooManyEntries = "too_many_entries"
)

package wire

// A tree of files comes to a computer, and what a command made of it leaves it again, as a stream of entries: each is one line of JSON,
// a file's followed by its content. Paths are below the tree's root, which is /home/user of the guest; "" is the root itself.
//
//	POST /trees/apply    TreeApplyRequest, then TreeEntry...   -> {}       moves the kept copy of a subject's tree on
//	POST /trees/changes  TreeChangesRequest -> TreeEntry...                what the machine that ended has changed of it; carries no fence
//
// The kept copy is a cache: a start that names another one is refused with tree_stale, and says which there is.

// TreeApplyRequest is the first line. The entries after it say what is different in the tree that is wanted.
type TreeApplyRequest struct {
	Fence
	From    string   `json:"from,omitempty"` // the copy that they are to be applied to; "" makes it anew
	To      string   `json:"to"`
	Layers  []string `json:"layers"` // say whose the files of /home/user are
	DiskGiB int      `json:"disk_gib"`
}

// TreeChangesRequest names the disk of a machine that has ended.
type TreeChangesRequest struct {
	Subject    `json:"subject"`
	Disk       string   `json:"disk"`
	Layers     []string `json:"layers"`
	Tree       bool     `json:"tree"` // it was started on one
	BytesMax   int64    `json:"bytes_max"`
	EntriesMax int64    `json:"entries_max"`
}

// Types of a TreeEntry.
const (
	TreeFile      = "file"
	TreeDirectory = "directory" // kept as it is where there is one; an opaque one in the place of whatever is there
	TreeSymlink   = "symlink"
	TreeRemove    = "remove"  // whatever is there, if anything
	TreeRefused   = "refused" // instead of an end: what follows cannot be said, and why
	TreeEnd       = "end"
)

// TreeEntry says what is at a path. A directory comes before what is in it.
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

// Why changes are refused.
const (
	TreeNameNotUTF8    = "name_not_utf8"
	TreePathTooLong    = "path_too_long"
	TreeTooLarge       = "too_large"
	TreeTooManyEntries = "too_many_entries"
)

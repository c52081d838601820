package wire

// FileInfo describes a path without following a final symbolic link.
type FileInfo struct {
	Path       string `json:"path"`
	Name       string `json:"name"`
	Type       string `json:"type"` // file, directory, symlink, other
	Size       int64  `json:"size"`
	Mode       string `json:"mode"` // octal, "0644"
	ModifiedAt string `json:"modified_at"`
	Revision   string `json:"revision,omitempty"` // SHA-256 of the content, for regular files of 256 MiB at most
	Target     string `json:"target,omitempty"`   // of a symbolic link
}

type FileList struct {
	Entries   []FileInfo `json:"entries"`
	Truncated bool       `json:"truncated"`
	// NextCursor is null on the last page, and if a directory has more names than are read.
	NextCursor *string `json:"next_cursor"`
}

type WriteResult struct {
	Path         string `json:"path"`
	BytesWritten int64  `json:"bytes_written"`
	SHA256       string `json:"sha256"`
	Durable      bool   `json:"durable"`  // fsync of file and directory succeeded
	Revision     string `json:"revision"` // SHA-256 of the whole file afterwards ("" above 256 MiB)
}

// The same bounds are in contract/limits.ts.
const (
	TarBytesMax   = 256 << 20
	TarEntriesMax = 100000
)

type TarResult struct {
	Path    string `json:"path"`
	Entries int    `json:"entries"` // entries of the tar
	Bytes   int64  `json:"bytes"`   // of the files in it
	Durable bool   `json:"durable"`
}

type MkdirRequest struct {
	Path    string `json:"path"`
	Parents bool   `json:"parents,omitempty"`
	Mode    string `json:"mode,omitempty"`
}

type MoveRequest struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Overwrite bool   `json:"overwrite,omitempty"`
}

// RevisionAbsent is the revision of a missing file.
const RevisionAbsent = "absent"

// PatchRequest changes one file atomically: by Edits in sequence, or to Content.
type PatchRequest struct {
	Path             string     `json:"path"`
	Edits            []TextEdit `json:"edits,omitempty"`
	Content          *string    `json:"content,omitempty"`
	ExpectedRevision string     `json:"expected_revision,omitempty"` // SHA-256, RevisionAbsent, or "" for any
}

type TextEdit struct {
	OldText    string `json:"old_text"`
	NewText    string `json:"new_text"`
	ReplaceAll bool   `json:"replace_all,omitempty"`
}

type PatchResult struct {
	Path             string   `json:"path"`
	Revision         string   `json:"revision"`
	PreviousRevision string   `json:"previous_revision,omitempty"` // RevisionAbsent: the file is new; "" above 256 MiB
	BytesWritten     int64    `json:"bytes_written"`
	Durable          bool     `json:"durable"`
	Replacements     int      `json:"replacements"`
	File             FileInfo `json:"file"`
}

type SearchRequest struct {
	Path            string   `json:"path"`
	Pattern         string   `json:"pattern"`
	Regex           bool     `json:"regex,omitempty"`
	CaseInsensitive bool     `json:"case_insensitive,omitempty"`
	Include         []string `json:"include,omitempty"`
	Exclude         []string `json:"exclude,omitempty"`
	MaxMatches      int      `json:"max_matches"`
	MaxFileBytes    int64    `json:"max_file_bytes"`
	ContextLines    int      `json:"context_lines,omitempty"`
	Cursor          string   `json:"cursor,omitempty"` // of the previous answer to the same request
	// OnDiskAfterMS is when a search may end with OnDisk; 0 is never.
	OnDiskAfterMS int64 `json:"on_disk_after_ms,omitempty"`
}

// SearchResult with OnDisk is empty: the host-side reader can search the same files.
type SearchResult struct {
	OnDisk       bool          `json:"on_disk,omitempty"`
	Matches      []SearchMatch `json:"matches"`
	Truncated    bool          `json:"truncated"`
	StopReason   *string       `json:"stop_reason"` // null: everything was searched
	FilesScanned int           `json:"files_scanned"`
	NextCursor   *string       `json:"next_cursor"` // null if everything searchable was searched
}

// SearchMatch has texts cut to 1,000 bytes, the line's around the match; invalid UTF-8 becomes U+FFFD.
type SearchMatch struct {
	Path   string   `json:"path"`
	Line   int      `json:"line"`   // from 1
	Column int      `json:"column"` // byte of the line, from 1
	Text   string   `json:"text"`
	Before []string `json:"before"`
	After  []string `json:"after"`
}

// Changes is in a walk's order by byte-sorted names; a summary replaces entries.
type Changes struct {
	Changes    []Change       `json:"changes"`
	NextCursor *string        `json:"next_cursor"`
	Summary    *ChangeSummary `json:"summary"`
}

type Change struct {
	Path   string `json:"path"`
	Kind   string `json:"change"` // added, modified, metadata, deleted, replaced
	Type   string `json:"type"`   // as in FileInfo; the old type if deleted
	Size   int64  `json:"size"`
	Mode   string `json:"mode"`
	SHA256 string `json:"sha256,omitempty"`
	// OnDisk leaves size and mode of a file or symbolic link to the host-side reader.
	OnDisk bool `json:"on_disk,omitempty"`
}

func (c Change) WithFact(f *Fact) Change {
	c.OnDisk, c.Type, c.Size, c.Mode = false, f.Type, f.Size, f.Mode
	return c
}

// FactsRequest follows no links.
type FactsRequest struct {
	Paths []string `json:"paths"`
}

// Facts are in the order of the paths; null: no such path.
type Facts struct {
	Facts []*Fact `json:"facts"`
}

type Fact struct {
	Type string `json:"type"`
	Size int64  `json:"size"`
	Mode string `json:"mode"`
}

// ChangeSummary counts all matching changes, or fewer if Truncated.
type ChangeSummary struct {
	Added     int  `json:"added"`
	Modified  int  `json:"modified"`
	Metadata  int  `json:"metadata"`
	Deleted   int  `json:"deleted"`
	Replaced  int  `json:"replaced"`
	Truncated bool `json:"truncated"`
}

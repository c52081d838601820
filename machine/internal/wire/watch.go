package wire

type WatchEvent struct {
	Type        string `json:"type"`
	WatchID     string `json:"watch_id,omitempty"`
	Offset      *int64 `json:"offset,omitempty"` // offset to continue after this event
	Missed      *bool  `json:"missed,omitempty"`
	Path        string `json:"path,omitempty"`
	Change      string `json:"change,omitempty"`
	IsDirectory *bool  `json:"is_directory,omitempty"`
	Why         string `json:"why,omitempty"`
}

const (
	WatchStart     = "start"
	WatchChange    = "change"
	WatchOverflow  = "overflow"
	WatchEnd       = "end"
	WatchHeartbeat = "heartbeat"
)

// Changes of a name; for WatchEnd, of the directory.
const (
	WatchAdded    = "added"
	WatchModified = "modified"
	WatchMetadata = "metadata"
	WatchDeleted  = "deleted"
	WatchMoved    = "moved"
)

const (
	WatchEvents      = "events"      // events were lost
	WatchDirectories = "directories" // too many directories to watch
)

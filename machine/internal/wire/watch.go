package wire

// WatchEvent is one line of GET /files/watch.
type WatchEvent struct {
	Type        string `json:"type"`
	WatchID     string `json:"watch_id,omitempty"`
	Offset      *int64 `json:"offset,omitempty"` // where to go on behind it
	Missed      *bool  `json:"missed,omitempty"`
	Path        string `json:"path,omitempty"`
	Change      string `json:"change,omitempty"`
	IsDirectory *bool  `json:"is_directory,omitempty"`
	Why         string `json:"why,omitempty"`
}

// Types of events.
const (
	WatchStart     = "start"
	WatchChange    = "change"
	WatchOverflow  = "overflow"
	WatchEnd       = "end"
	WatchHeartbeat = "heartbeat"
)

// What became of a name; of WatchEnd: of the directory.
const (
	WatchAdded    = "added"
	WatchModified = "modified"
	WatchMetadata = "metadata"
	WatchDeleted  = "deleted"
	WatchMoved    = "moved"
)

// Why there is a WatchOverflow.
const (
	WatchEvents      = "events"      // some were lost
	WatchDirectories = "directories" // there are more than are watched
)

package wire

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

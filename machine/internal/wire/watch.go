package wire

const (
	WatchStart     = "start"
	WatchChange    = "change"
	WatchOverflow  = "overflow"
	WatchEnd       = "end"
	WatchHeartbeat = "heartbeat"
)

// These are the kinds of change of a name; WatchEnd is about the directory itself.
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

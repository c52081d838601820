package wire

// An answer is cut after the directory that reaches a limit. A directory beyond LayerDirectoryMax is refused.
const (
	LayerListEntries  = 5000
	LayerListBytes    = 256 << 20
	LayerDirectoryMax = 100_000
)

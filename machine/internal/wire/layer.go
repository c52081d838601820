package wire

// An answer ends with the directory that reaches a bound. A directory beyond LayerDirectoryMax is refused.
const (
	LayerListEntries  = 5000
	LayerListBytes    = 256 << 20
	LayerDirectoryMax = 100_000
)

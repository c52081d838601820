package wire

// Listeners are the addresses on which something listens on one port, ListenersMax at most. Wildcards come first.
type Listeners struct {
	Addresses []string `json:"addresses"`
}

// ListenersMax is how many addresses an answer holds at most.
const ListenersMax = 16

package wire

// Listeners are the addresses with a listener on one port, ListenersMax at most. Wildcards come first.
type Listeners struct {
	Addresses []string `json:"addresses"`
}

const ListenersMax = 16

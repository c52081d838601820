package wire

// Listeners are addresses that listen on one port, wildcards first.
type Listeners struct {
	Addresses []string `json:"addresses"`
}

const ListenersMax = 16

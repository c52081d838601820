package wire

// Firewalls can also drop machines' packets; empty if packets do not leave through the host.
type Firewalls struct {
	Found []FirewallFound `json:"found"`
}

type FirewallFound struct {
	Name   string   `json:"name"`
	State  string   `json:"state"`         // open: the instance's rules are in it; closed: they could not be inserted; manual: not tried
	Why    string   `json:"why,omitempty"` // why it is closed
	Recipe []string `json:"recipe"`        // commands that an operator can run to let machines' packets through
}

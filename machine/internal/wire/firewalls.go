package wire

// Firewalls are those of the host that can drop what machines send. Empty where packets do not leave through the host.
type Firewalls struct {
	Found []FirewallFound `json:"found"`
}

type FirewallFound struct {
	Name   string   `json:"name"`
	State  string   `json:"state"`         // open: rules of the instance are in it; closed: they could not be put in; manual: not tried
	Why    string   `json:"why,omitempty"` // it is closed
	Recipe []string `json:"recipe"`        // commands that let machines' packets through, to be run by hand
}

package wire

// Modes of an EgressPolicy.
const (
	EgressAllowAll  = "allow_all"
	EgressAllowlist = "allowlist"
	EgressDenyAll   = "deny_all"
)

// EgressDefault is the revision of a machine that was started without a policy: it may reach all that is public.
const EgressDefault = "default"

// EgressPolicy is what a machine may reach. Rules and CIDRs are an allowlist's alone. What is private, or lies around the host, is
// reached under none.
type EgressPolicy struct {
	Revision string       `json:"revision"` // what an acknowledgement names: 1 to 64 letters, digits, dots, dashes or underscores
	Mode     string       `json:"mode"`
	Rules    []EgressRule `json:"rules"`
	CIDRs    []string     `json:"cidrs"` // public; every port of TCP
	// SecretPorts are led through the proxy that puts secrets into requests, as far as the policy lets connections to them out.
	SecretPorts []int `json:"secret_ports,omitempty"`
	// SecretsOf says whose secrets these are. hostd fills it in, whatever it is told.
	SecretsOf *SecretsOf `json:"secrets_of,omitempty"`
}

// SecretsOf is a machine as the cell knows it, which the proxy asks for what goes into its requests.
type SecretsOf struct {
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
}

// EgressRule lets TCP connections out to the addresses that a name has.
type EgressRule struct {
	Host  string `json:"host"` // lower-case, at least two labels; "*." stands for one label
	Ports []int  `json:"ports"`
}

// SetEgressRequest changes the policy of a machine that is there. It waits for no other verb of its subject. Its answer says that every
// packet meets the policy from now on, and that connections which it does not allow carry nothing any more.
type SetEgressRequest struct {
	Fence
	Egress EgressPolicy `json:"egress"`
}

type EgressRevision struct {
	Revision string `json:"revision"`
}

// States of EgressInForce.
const (
	EgressEnforced = "enforced"
	EgressFailed   = "failed" // the rules are not as hostd made them, and could not be put in again
)

// EgressInForce is the policy that a machine's packets meet. Of one that is not connected yet: the one that they will meet.
type EgressInForce struct {
	Revision string `json:"revision"`
	State    string `json:"state"`
}

type EgressDenialsRequest struct {
	Subject `json:"subject"`
}

// EgressDenials is what a machine asked for in the last hours and its policy refused, what was refused last at first. At most 256 names and 256
// addresses. It counts while an allowlist or deny_all holds. Names are forgotten when hostd ends.
type EgressDenials struct {
	Denials []EgressDenial `json:"denials"`
}

// Protocols of an EgressDenial.
const (
	DeniedTCP   = "tcp"
	DeniedUDP   = "udp"
	DeniedDNS   = "dns" // a name was asked for
	DeniedOther = "other"
)

type EgressDenial struct {
	Name     *string `json:"name"`    // of an address: what the machine had asked for when it got it; null where that is not known
	Address  *string `json:"address"` // null of a name that was asked for
	Port     int     `json:"port"`    // 0 where there is none
	Protocol string  `json:"protocol"`
	Count    int64   `json:"count"` // of refused packets, or questions
	FirstAt  string  `json:"first_at"`
	LastAt   string  `json:"last_at"`
}

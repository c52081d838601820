package wire

const (
	EgressAllowAll  = "allow_all"
	EgressAllowlist = "allowlist"
	EgressDenyAll   = "deny_all"
)

// EgressDefault is in force without a policy: all public addresses are reachable.
const EgressDefault = "default"

// EgressPolicy never allows private addresses or the host's surroundings. Rules and CIDRs apply to an allowlist only.
type EgressPolicy struct {
	Revision string       `json:"revision"` // named in acknowledgements: 1 to 64 letters, digits, dots, dashes or underscores
	Mode     string       `json:"mode"`
	Rules    []EgressRule `json:"rules"`
	CIDRs    []string     `json:"cidrs"` // public; all TCP ports
	// SecretPorts go to the proxy that injects secrets, if the policy allows their connections.
	SecretPorts []int `json:"secret_ports,omitempty"`
	// SecretsOf is set by hostd, which ignores the caller's value.
	SecretsOf *SecretsOf `json:"secrets_of,omitempty"`
}

// SecretsOf is a machine as the cell knows it.
type SecretsOf struct {
	WorkspaceID string `json:"workspace_id"`
	Epoch       int64  `json:"epoch"`
}

// EgressRule allows TCP to the addresses of a name.
type EgressRule struct {
	Host  string `json:"host"` // lower-case, at least two labels; "*." stands for one label
	Ports []int  `json:"ports"`
}

// SetEgressRequest waits for no other verb. After its answer the policy governs every packet, and forbidden connections
// are cut.
type SetEgressRequest struct {
	Fence
	Egress EgressPolicy `json:"egress"`
}

type EgressRevision struct {
	Revision string `json:"revision"`
}

const (
	EgressEnforced = "enforced"
	EgressFailed   = "failed" // the rules differ from hostd's and could not be repaired
)

// EgressInForce is the policy now, or once connected.
type EgressInForce struct {
	Revision string `json:"revision"`
	State    string `json:"state"`
}

type EgressDenialsRequest struct {
	Subject `json:"subject"`
}

// EgressDenials covers the last hours, latest first: at most 256 names and 256 addresses, under an allowlist or
// deny_all only. hostd's end loses names.
type EgressDenials struct {
	Denials []EgressDenial `json:"denials"`
}

const (
	DeniedTCP   = "tcp"
	DeniedUDP   = "udp"
	DeniedDNS   = "dns" // a DNS query
	DeniedOther = "other"
)

type EgressDenial struct {
	Name     *string `json:"name"`    // of an address: the name it was resolved from; null if unknown
	Address  *string `json:"address"` // null for a DNS query
	Port     int     `json:"port"`    // 0 if there is none
	Protocol string  `json:"protocol"`
	Count    int64   `json:"count"` // refused packets or queries
	FirstAt  string  `json:"first_at"`
	LastAt   string  `json:"last_at"`
}

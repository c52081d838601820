package wire

// EgressDefault is the revision in force without a policy: all public addresses are reachable.
const EgressDefault = "default"

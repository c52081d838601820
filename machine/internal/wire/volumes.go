package wire

// VolumeHere is a volume that lies on this computer, half-made ones too.
type VolumeHere struct {
	VolumeID string `json:"volume_id"`
	// KeptSince: the caller knows no such volume and has said so, "" where it has not.
	KeptSince string `json:"kept_since,omitempty"`
}

// KeepVolumeRequest says whether a volume is kept although the caller does not know it. Since when stays as it was first said.
type KeepVolumeRequest struct {
	Fence
	Keep bool `json:"keep"`
}

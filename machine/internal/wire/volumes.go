package wire

// VolumeHere may be unfinished.
type VolumeHere struct {
	VolumeID string `json:"volume_id"`
	// KeptSince is when the caller first did not know the volume; "": never.
	KeptSince string `json:"kept_since,omitempty"`
}

// KeepVolumeRequest keeps a volume that the caller does not know. The first time stays recorded.
type KeepVolumeRequest struct {
	Fence
	Keep bool `json:"keep"`
}

package wire

// VolumeHere is a volume on this computer, finished or not.
type VolumeHere struct {
	VolumeID string `json:"volume_id"`
	// KeptSince is when the caller first reported that it does not know the volume; "": never.
	KeptSince string `json:"kept_since,omitempty"`
}

// KeepVolumeRequest keeps or releases a volume that the caller does not know. The first time stays recorded.
type KeepVolumeRequest struct {
	Fence
	Keep bool `json:"keep"`
}

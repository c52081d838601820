package wire

// VolumeHere is a volume on this computer, including unfinished ones.
type VolumeHere struct {
	VolumeID string `json:"volume_id"`
	// KeptSince is when the caller first reported that it does not know the volume; "" if it has not.
	KeptSince string `json:"kept_since,omitempty"`
}

// KeepVolumeRequest sets whether a volume that the caller does not know is kept. The first time stays recorded.
type KeepVolumeRequest struct {
	Fence
	Keep bool `json:"keep"`
}

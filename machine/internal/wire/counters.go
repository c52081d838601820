package wire

// Ended answers what ends a machine. A repeat tells the same for some minutes, until the subject has another machine.
type Ended struct {
	// Counters are its last, null where there was none: nothing of it runs after they were read.
	Counters *MachineStats `json:"counters"`
}

// Stats are samples of resident machines, in whole units since the machine started.
type Stats struct {
	Machines []MachineStats `json:"machines"`
}

type MachineStats struct {
	Subject     `json:"subject"`
	Epoch       int64 `json:"epoch"`
	Fence       int64 `json:"fence"` // with the subject it names the machine whose counters these are
	CPUUsec     int64 `json:"cpu_usec"`
	MemoryBytes int64 `json:"memory_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
	RxBytes     int64 `json:"rx_bytes"` // of its link: whatever came, the host's questions too
	TxBytes     int64 `json:"tx_bytes"`
	Received    int64 `json:"received_bytes"` // from the uplink, let through
	Sent        int64 `json:"sent_bytes"`
	RanMS       int64 `json:"ran_ms"` // since it was claimed, while it stood still too
}

// MeasureRequest names at most 500 subjects. Of one without a machine, or without files, the answer says nothing.
type MeasureRequest struct {
	Subjects []Subject `json:"subjects"`
}

// Measures has no disk of a subject that has no files here.
type Measures struct {
	Disks []DiskMeasure `json:"disks"`
}

type DiskMeasure struct {
	Subject   `json:"subject"`
	DiskBytes int64 `json:"disk_bytes"` // as in MachineStats
}

package wire

// Ended repeats its answer for some minutes, until the subject has another machine.
type Ended struct {
	// Counters are final: the guest runs no further instruction. null without a machine.
	Counters *MachineStats `json:"counters"`
}

// Stats counts from each machine's start.
type Stats struct {
	Machines []MachineStats `json:"machines"`
}

type MachineStats struct {
	Subject     `json:"subject"`
	Epoch       int64 `json:"epoch"`
	Fence       int64 `json:"fence"` // with the subject it identifies the machine
	CPUUsec     int64 `json:"cpu_usec"`
	MemoryBytes int64 `json:"memory_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
	RxBytes     int64 `json:"rx_bytes"` // all traffic of its link, including hostd's own calls
	TxBytes     int64 `json:"tx_bytes"`
	Received    int64 `json:"received_bytes"` // from the uplink, after the firewall
	Sent        int64 `json:"sent_bytes"`
	RanMS       int64 `json:"ran_ms"` // since its claim, including paused time
}

// MeasureRequest names at most 500 subjects.
type MeasureRequest struct {
	Subjects []Subject `json:"subjects"`
}

// Measures omits subjects without files here.
type Measures struct {
	Disks []DiskMeasure `json:"disks"`
}

type DiskMeasure struct {
	Subject   `json:"subject"`
	DiskBytes int64 `json:"disk_bytes"`
}

package wire

// hostd answers HTTP over a unix socket. Every change carries a Fence; hostd runs one verb at a time for a subject. It
// stores the highest fencing token on disk and refuses a lower one (409 `fenced`). A verb repeated with the same token
// and step runs once. Host.Handler lists all calls; the less obvious:
//
//	/machines/start        blank disk, or a new attempt on a named disk
//	/machines/restore      without memory it boots from the disk
//	/machines/connect      packets may leave; after a start or restore none leave before
//	/machines/unpause      after a checkpoint that kept the guest paused
//	/machines/stop         idempotent; no instruction of the guest runs after it. Mounts, cgroup, network are
//	                       released after the answer; a verb that needs them gone waits
//	/machines/freeze       cgroup freezer
//	/machines/egress_denials   empty without a machine
//	/volumes/create        durable; sets an existing volume's limit. The subject is the volume
//	/volumes/delete        detached from every machine first
//	/subjects/fence        refuses lower tokens from now on; waits for running verbs
//	/disks|volumes/measure what quotas count
//	/inventory             ?files=false omits the pool's files
//	/events?after=N        NDJSON, kept open, a blank line every 15 s
//
// A refusal is HostError, with a code of HostErrors. no_space means the pool, disk_full the workspace's limit.
//
// contract/internal/host*.ts has the shapes; `npm run wire` writes the structs from them.

// InstallationHeader is in every call that changes something. After an installation has claimed the pool, all other
// callers get `wrong_installation`.
const InstallationHeader = "Berth-Installation"

func (f Fence) Caller() Fence { return f }

// A memory can be restored only under the engine kind that saved it.
const EngineGVisor = "gvisor"

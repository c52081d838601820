package guard

import (
	"bytes"
	"os"
	"slices"
	"strconv"
)

const pageBytes = 4096

// guestPIDs lists the processes that may be ended.
func guestPIDs(own []int) (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what was read before an error is what can be judged
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && !slices.Contains(own, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// largest is the process with most resident memory.
func largest(own []int) (pid int, residentBytes int64) {
	for _, candidate := range guestPIDs(own) {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(candidate) + "/statm")
		fields := bytes.Fields(b)
		if err != nil || len(fields) < 2 {
			continue // ended meanwhile
		}
		pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err == nil && pages*pageBytes > residentBytes {
			pid, residentBytes = candidate, pages*pageBytes
		}
	}
	return pid, residentBytes
}

package guard

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/machine/internal/agent/procfs"
)

const pageBytes = 4096

func largest(own []int) (pid int, residentBytes int64) {
	procfs.Visit(func(candidate int, read func(file string) ([]byte, error)) {
		if slices.Contains(own, candidate) {
			return
		}
		b, err := read("statm")
		fields := bytes.Fields(b)
		if err != nil || len(fields) < 2 {
			return // exited
		}
		pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
		if err == nil && pages*pageBytes > residentBytes {
			pid, residentBytes = candidate, pages*pageBytes
		}
	})
	return pid, residentBytes
}

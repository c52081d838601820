// Command intruder runs as root in a guest, looks for a way out of its workspace, and prints its findings as JSON.
//
// `intruder processes FILE` opens the entries in /proc of every new process, until FILE exists.
// `intruder mounts NAME` tries to write a file NAME, and other changes, at every mount.
package main

import (
	"encoding/json"
	"log"
	"os"
	"time"
)

const timeMax = 5 * time.Minute

func main() {
	log.SetFlags(0)
	var found any
	switch {
	case len(os.Args) == 3 && os.Args[1] == "processes":
		found = watchProcesses(os.Args[2], time.Now().Add(timeMax))
	case len(os.Args) == 3 && os.Args[1] == "mounts":
		found = tryMounts(os.Args[2])
	default:
		log.Fatal("usage: intruder processes FILE | mounts NAME")
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

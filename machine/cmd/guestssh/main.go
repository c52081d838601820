// guestssh serves one SSH connection on stdin and stdout, in a workspace, as the user who logs in.
package main

import (
	"log"
	"os"

	"github.com/berth-dev/berth/machine/internal/guestssh"
)

func main() {
	log.SetFlags(0)
	if err := guestssh.Serve(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

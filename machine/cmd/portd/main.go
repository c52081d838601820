// Command portd serves the ports of workspaces. Its only privilege is to call the cell, which decides what may be
// served and where it is.
package main

import (
	"fmt"
	"os"

	"github.com/berth-dev/berth/machine/internal/ports"
)

func main() {
	if err := ports.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "portd:", err)
		os.Exit(1)
	}
}

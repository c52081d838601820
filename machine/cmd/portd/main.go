// Command portd serves the ports of workspaces to whoever has a right to them. It has no right of its own on this computer but to speak
// to the cell, which knows what may be served and where that is.
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

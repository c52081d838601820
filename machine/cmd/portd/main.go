// Command portd serves the ports of workspaces. Its only privilege is to ask the cell which ports may be served.
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

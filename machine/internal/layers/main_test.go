package layers

import (
	"os"
	"runtime"
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func init() { runtime.LockOSThread() }

var onFirstThread = make(chan func())

func TestMain(m *testing.M) {
	ended := make(chan int)
	go func() { ended <- testns.Run(m, 0) }()
	for {
		select {
		case do := <-onFirstThread:
			do()
		case code := <-ended:
			os.Exit(code)
		}
	}
}

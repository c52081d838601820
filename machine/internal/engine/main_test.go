package engine

import (
	"os"
	"testing"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func TestMain(m *testing.M) { os.Exit(testns.Run(m, 0)) }

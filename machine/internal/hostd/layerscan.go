package hostd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/cgroup"
	"github.com/berth-dev/berth/machine/internal/layerscan"
	"github.com/berth-dev/berth/machine/internal/wire"
)

const (
	// A CPU weight in percent of a machine's, so that work on layers yields to machines.
	asideWeight = 25
	// scanAnswerMax allows six bytes of JSON for each byte of a path.
	scanAnswerMax = wire.LayerFindingsMax * (6*unix.PathMax + 256)
	scanTimeMax   = layerscan.LayerTime + 30*time.Second
)

var scanLimits = cgroup.Limits{CPUMillis: 1000, MemoryBytes: layerscan.MemoryBytesMax, Pids: 64, WeightPercent: asideWeight}

// The findings are only advice: after a failed scan, one finding reports the failure and the layer is made. Only an
// ended context is an error.
func (h *Host) scanForSecrets(ctx context.Context, from *os.File, r wire.LayerRequest) ([]wire.LayerFinding, error) {
	found, err := h.scanAside(ctx, from, layerscan.Setup{Drop: r.Drop, EntriesMax: r.EntriesMax})
	if err == nil || ctx.Err() != nil {
		return found, ctx.Err()
	}
	h.log.Error("a layer is not scanned for secrets", "subject", r.Owner(), "error", err)
	return []wire.LayerFinding{{Path: "/", Rule: wire.FindingNotScanned, Line: 1}}, nil
}

func (h *Host) scanAside(ctx context.Context, from *os.File, setup layerscan.Setup) ([]wire.LayerFinding, error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeMax)
	defer cancel()
	line, err := json.Marshal(setup)
	if err != nil {
		return nil, err
	}
	input, send, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer input.Close()
	defer send.Close()
	answer := &bounded{max: scanAnswerMax}
	command := exec.CommandContext(ctx, "/proc/self/exe")
	command.Args = []string{"berth-" + h.config.Instance + "-scan", layerscan.Command}
	command.Env, command.Dir = []string{"GOTRACEBACK=single", "GOMAXPROCS=1"}, "/"
	command.Stdin, command.Stdout, command.Stderr, command.ExtraFiles = input, answer, os.Stderr, []*os.File{from}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: layerscan.Capabilities}
	err = h.runInCgroup("scan", scanLimits, command, func() error {
		_, err := send.Write(append(line, '\n'))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("scanning for secrets: %w", err)
	}
	found := []wire.LayerFinding{}
	if err := json.Unmarshal(answer.Bytes(), &found); err != nil || len(found) > wire.LayerFindingsMax {
		return nil, errors.Join(err, fmt.Errorf("the scan found %d things", len(found)))
	}
	return found, nil
}

type bounded struct {
	bytes.Buffer
	max int
}

func (b *bounded) Write(text []byte) (int, error) {
	if b.Len()+len(text) > b.max {
		return 0, errors.New("the program says too much")
	}
	return b.Buffer.Write(text)
}

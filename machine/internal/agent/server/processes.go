package server

import (
	"errors"
	"maps"
	"net/http"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/processes"
)

func (m *machine) getProcesses(w http.ResponseWriter, r *http.Request) error {
	sessions, err := m.running()
	if err != nil {
		return err
	}
	limit, err := wholeNumber(r.URL.Query().Get("limit"), 0)
	if err != nil {
		return err
	}
	terminals, err := m.opened()
	if err != nil {
		return err
	}
	leaders := sessions.Leaders()
	maps.Copy(leaders, terminals.Leaders())
	list, err := processes.List(m.guest, leaders, int(min(limit, 1<<30)))
	if err != nil {
		return err
	}
	send(w, http.StatusOK, list)
	return nil
}

func (m *machine) postProcessSignal(w http.ResponseWriter, r *http.Request) error {
	if _, err := m.running(); err != nil {
		return err
	}
	var req struct {
		Signal string `json:"signal"`
	}
	if err := parse(w, r, &req); err != nil {
		return err
	}
	number := unix.SignalNum(req.Signal)
	if number == 0 {
		return fail.Invalid("invalid_signal", "Signals are named as SIGTERM")
	}
	missing := fail.NotFound("process_not_found", "There is no such process")
	pid, err := strconv.ParseInt(r.PathValue("pid"), 10, 32)
	if err != nil || pid < 2 { // pid 1 is the agent's init
		return missing
	}
	if err := m.guest.Signal(int(pid), number); errors.Is(err, syscall.ESRCH) {
		return missing
	} else if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

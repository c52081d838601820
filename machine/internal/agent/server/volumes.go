package server

import (
	"log"
	"net/http"

	"github.com/berth-dev/berth/machine/internal/agent/guest"
	"github.com/berth-dev/berth/machine/internal/wire"
)

// hostd calls postVolumes after it has mounted these volumes, and unmounts all others afterwards.
func (m *machine) postVolumes(w http.ResponseWriter, r *http.Request) error {
	var request wire.GuestVolumesRequest
	if err := parse(w, r, &request); err != nil {
		return err
	}
	if _, err := m.running(); err != nil {
		return err
	}
	how := guest.LeaveBusy
	if request.EndUsers {
		how = guest.EndUsers
	}
	m.becoming.Lock()
	defer m.becoming.Unlock()
	answer, err := m.guest.SetVolumes(request.Volumes, how)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, answer)
	return nil
}

// The workspace runs without volumes that cannot be mounted; `shown` reports these volumes.
func (m *machine) setVolumes(in wire.Incarnation, how guest.Unmounting) {
	answer, err := m.guest.SetVolumes(in.Volumes, how)
	if err != nil || len(answer.Busy)+len(answer.Refused) > 0 {
		log.Printf("volumes: %+v: %v", answer, err)
	}
	m.mu.Lock()
	m.refused = answer.Refused
	m.mu.Unlock()
}

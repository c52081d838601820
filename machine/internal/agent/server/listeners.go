package server

import (
	"net/http"
	"strconv"

	"github.com/berth-dev/berth/machine/internal/agent/fail"
	"github.com/berth-dev/berth/machine/internal/agent/listeners"
)

func (m *machine) getListeners(w http.ResponseWriter, r *http.Request) error {
	port, err := strconv.ParseUint(r.URL.Query().Get("port"), 10, 16)
	if err != nil || port == 0 {
		return fail.BadRequest("invalid_query", "A port is a number from 1 to 65535")
	}
	found, err := listeners.On(uint16(port))
	if err != nil {
		return err
	}
	send(w, http.StatusOK, found)
	return nil
}

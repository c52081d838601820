package hostd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// installation is the id of the database that describes the pool's content. The id is stored in the pool and moves with
// it, so a cell with another database is refused.
type installation struct {
	path string
	mu   sync.Mutex
	id   string // "" until a cell has claimed the pool
}

func openInstallation(dir string) (*installation, error) {
	owner := &installation{path: filepath.Join(dir, "installation")}
	text, err := os.ReadFile(owner.path)
	if errors.Is(err, fs.ErrNotExist) {
		return owner, nil
	}
	if err != nil {
		return nil, err
	}
	owner.id = strings.TrimSpace(string(text))
	if !uuidPattern.MatchString(owner.id) {
		return nil, fmt.Errorf("%s does not hold the id of an installation: put it back, or remove the file to let the next database take the pool", owner.path)
	}
	return owner, nil
}

func (o *installation) current() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.id
}

func (o *installation) admits(id string) error {
	if current := o.current(); current != "" && current != id {
		return refuseStranger(current)
	}
	return nil
}

// insteadOf is the installation to replace. It is set only on an operator's explicit request.
func (o *installation) claim(id, insteadOf string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.id == id {
		return nil
	}
	if o.id != insteadOf {
		return refuseStranger(o.id)
	}
	if err := writeDurably(o.path, []byte(id+"\n")); err != nil {
		return err
	}
	o.id = id
	return nil
}

func refuseStranger(owner string) error {
	return refuse("wrong_installation", "The pool belongs to installation "+owner+": this database is another one's, so nothing here is changed")
}

func (h *Host) claimPool(_ context.Context, r wire.InstallationRequest) (wire.Installation, error) {
	before := h.owner.current()
	if err := h.owner.claim(r.InstallationID, r.InsteadOf); err != nil {
		return wire.Installation{}, err
	}
	if before != r.InstallationID {
		h.log.Warn("the pool belongs to an installation", "installation", r.InstallationID, "before", before)
	}
	return wire.Installation{InstallationID: r.InstallationID}, nil
}

func checkInstallation(r wire.InstallationRequest) error {
	if !uuidPattern.MatchString(r.InstallationID) || (r.InsteadOf != "" && !uuidPattern.MatchString(r.InsteadOf)) {
		return refuse("bad_request", "installation_id and instead_of are UUIDs")
	}
	return nil
}

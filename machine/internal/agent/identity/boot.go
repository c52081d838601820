package identity

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/machine/internal/wire"
)

// Each boot creates these files on the workspace's disk, outside of the guest's tree. An adoption binds them into
// the tree.
const (
	Tmp    = "tmp"
	BootID = "boot_id"

	oldTmp       = "tmp.old-" // prefix of a renamed tmp
	tmpMode      = 0o1777
	bootIDMode   = 0o444
	stateListMax = 4096
)

// Boot gives a guest that starts without memory an empty /tmp and a new boot id. The old /tmp, with up to a million
// files, is deleted in the background.
func Boot(stateDir string) error {
	if err := emptyTmp(stateDir); err != nil {
		return fmt.Errorf("/tmp: %w", err)
	}
	if err := os.WriteFile(filepath.Join(stateDir, BootID), newBootID(), bootIDMode); err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	go removeOldTmp(stateDir)
	return nil
}

func emptyTmp(stateDir string) error {
	tmp := filepath.Join(stateDir, Tmp)
	err := os.Rename(tmp, filepath.Join(stateDir, oldTmp+newMachineID()))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := unix.Mkdir(tmp, 0o700); err != nil {
		return &os.PathError{Op: "mkdir", Path: tmp, Err: err}
	}
	return unix.Chmod(tmp, tmpMode) // mkdir applies the umask
}

func removeOldTmp(stateDir string) {
	dir, err := os.Open(stateDir)
	if err != nil {
		return
	}
	names, _ := dir.Readdirnames(stateListMax)
	dir.Close()
	for _, name := range names {
		if !strings.HasPrefix(name, oldTmp) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(stateDir, name)); err != nil {
			log.Printf("what an earlier boot left in /tmp: %v", err) // the next boot tries again
		}
	}
}

// renewBootID overwrites the file in place, because the guest has it mounted. A disk of an older agent has no such
// file.
func renewBootID(stateDir string, in wire.Incarnation) error {
	if !in.RenewIdentity {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(stateDir, BootID), os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteAt(newBootID(), 0)
	return err
}

func newBootID() []byte {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

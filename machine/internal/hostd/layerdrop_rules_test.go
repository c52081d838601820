package hostd

import (
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAManifestThatCannotBeReadNowIsNotTakenForBroken(t *testing.T) {
	for errno, temporary := range map[unix.Errno]bool{
		unix.EMFILE: true, unix.ENFILE: true, unix.ENOMEM: true, unix.EIO: false, unix.EISDIR: false, unix.ENOENT: false,
	} {
		err := corrupt(&fs.PathError{Op: "read", Path: "manifest.json", Err: errno})
		if isTemporary(err) != temporary {
			t.Errorf("%s: temporary is %v", errno, !temporary)
		}
	}
	if isTemporary(nil) {
		t.Error("no error is temporary")
	}
}

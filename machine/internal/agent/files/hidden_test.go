package files

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/machine/internal/testns"
)

func TestWhatADeadMachineDidNotFinishGoesWithTheNextWriteBeside(t *testing.T) {
	hidden.mu.Lock()
	clear(hidden.swept) // an earlier test's directory may have had the same inode number
	hidden.mu.Unlock()
	r, root := tree(t)
	home := filepath.Join(root, "home/user")
	left := filepath.Join(home, hiddenPrefix+strings.Repeat("0a", 16)+hiddenSuffix)
	guests := []string{hiddenPrefix + strings.Repeat("0a", 16), hiddenPrefix + "x" + hiddenSuffix, "file"}
	for _, name := range append(guests, filepath.Base(left)) {
		must(t, os.WriteFile(filepath.Join(home, name), []byte("written"), 0o600))
	}
	body, send := io.Pipe()
	slow := make(chan error)
	go func() {
		_, err := Write(r, "/home/user/slow", body, WriteOptions{Owner: me})
		slow <- err
	}()
	_, err := send.Write([]byte("sl"))
	must(t, err)
	for end := time.Now().Add(testns.Patience(10 * time.Second)); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(left); os.IsNotExist(err) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the unfinished file stays")
		}
	}
	dir, err := os.Open(home)
	must(t, err)
	defer dir.Close()
	hidden.sweep(dir)
	_, err = send.Write([]byte("ow"))
	must(t, err)
	send.Close()
	must(t, <-slow)
	if text, err := os.ReadFile(filepath.Join(home, "slow")); string(text) != "slow" {
		t.Fatalf("%q, %v", text, err)
	}
	for _, name := range guests {
		if _, err := os.Lstat(filepath.Join(home, name)); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(home, hiddenPrefix+"*"+hiddenSuffix)); len(left) != 1 {
		t.Fatalf("left: %v", left)
	}
}

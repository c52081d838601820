package network

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const nsfsMagic = 0x6e736673

// inNamespace runs do in another namespace. do must start no goroutines that use the network. A socket remains in the
// namespace in which it was made.
func inNamespace(namespace *os.File, do func() error) error {
	return onForeignThread(func() error {
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", namespace.Name(), err)
		}
		return do()
	})
}

// onForeignThread runs do on a locked thread. A thread that cannot return to its namespace is discarded. This must be
// rare: the first thread cannot end, and /proc/self would show another namespace for ever.
func onForeignThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer home.Close()
		err = do()
		if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// createNamespace mounts the new namespace at pin. The mount keeps the namespace alive, and runsc and a later hostd
// open it there.
func createNamespace(pin string) (*os.File, error) {
	if err := os.WriteFile(pin, nil, 0o600); err != nil {
		return nil, err
	}
	err := onForeignThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if err := disableIPv6(); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", pin, "", unix.MS_BIND, "")
	})
	if err != nil {
		os.Remove(pin)
		return nil, fmt.Errorf("make network namespace %s: %w", pin, err)
	}
	return os.Open(pin)
}

func openOrCreateNamespace(pin string) (*os.File, error) {
	if isNamespace(pin) {
		return os.Open(pin)
	}
	return createNamespace(pin)
}

func removeNamespace(pin string) error {
	for isNamespace(pin) {
		if err := unix.Unmount(pin, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unpin network namespace %s: %w", pin, err)
		}
	}
	if err := os.Remove(pin); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func isNamespace(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && int64(stat.Type) == nsfsMagic
}

func openNamespace(name string) (*os.File, error) {
	path := name
	if !strings.Contains(name, "/") {
		path = filepath.Join("/run/netns", name)
	}
	if !isNamespace(path) {
		return nil, fmt.Errorf("the uplink %q is not a network namespace (%s)", name, path)
	}
	return os.Open(path)
}

func handleIn(namespace *os.File, families ...int) (handle *netlink.Handle, err error) {
	err = inNamespace(namespace, func() error {
		handle, err = netlink.NewHandle(families...)
		return err
	})
	return handle, err
}

// IPv6 is disabled, because no rules for it are enforced yet.
func disableIPv6() error {
	for _, which := range []string{"all", "default"} {
		err := setSysctl("net/ipv6/conf/"+which+"/disable_ipv6", "1")
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return err
		}
	}
	return nil
}

// setSysctl writes only a different value: a container's /proc/sys may be read-only and have the right value.
func setSysctl(name, value string) error {
	path := filepath.Join("/proc/sys", name)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(text)) == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set %s to %s: %w", strings.ReplaceAll(name, "/", "."), value, err)
	}
	return nil
}

package loopdev

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Below lists the loop devices of files in a directory, including deleted files.
func Below(dir string) (map[int]string, error) {
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	found := map[int]string{}
	for _, path := range paths {
		var number int
		if _, err := fmt.Sscanf(path, "/sys/block/loop%d/", &number); err != nil {
			continue
		}
		text, err := os.ReadFile(path)
		if file := strings.TrimSpace(string(text)); err == nil && strings.HasPrefix(file, strings.TrimSuffix(dir, "/")+"/") {
			found[number] = file
		}
	}
	return found, nil
}

// Detach takes effect when the device's last mount is gone.
func Detach(number int) error {
	device, err := openDevice(number, false)
	if err != nil {
		return err
	}
	defer device.Close()
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0); err != nil && err != unix.ENXIO {
		return fmt.Errorf("detach loop%d: %w", number, err)
	}
	return nil
}

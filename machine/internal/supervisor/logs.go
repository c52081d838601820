package supervisor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	logBytesMax   = 16 << 20
	logCheckEvery = 2 * time.Second
	logTailBytes  = 4000
)

func logPath(dir, name string) string { return filepath.Join(dir, name+".log") }

func openLog(dir string, child Child) (*os.File, error) {
	return os.OpenFile(logPath(dir, child.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// boundLogs limits a log and its predecessor to 16 MiB together. Children hold the log open, so a full log is copied
// and truncated. Lines that are written in between are lost, which is better than a full disk.
func boundLogs(ctx context.Context, config Config, report func(string)) {
	ticker := time.NewTicker(logCheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, child := range config.Children {
			if err := boundLog(logPath(config.LogDir, child.Name), logBytesMax); err != nil {
				report("the log of " + child.Name + " cannot be bounded: " + err.Error())
			}
		}
	}
}

func boundLog(path string, bytesMax int64) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || (err == nil && info.Size() <= bytesMax) {
		return nil
	}
	if err != nil {
		return err
	}
	// The log is truncated even if the copy fails for lack of space.
	copied := copyTail(path, path+".1", bytesMax)
	return errors.Join(os.Truncate(path, 0), copied)
}

func copyTail(from, to string, bytesMax int64) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if _, err := source.Seek(-bytesMax, io.SeekEnd); err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, io.LimitReader(source, bytesMax))
	return errors.Join(err, target.Close())
}

func tail(dir, name string) string {
	file, err := os.Open(logPath(dir, name))
	if err != nil {
		return ""
	}
	defer file.Close()
	if _, err := file.Seek(-logTailBytes, io.SeekEnd); err != nil {
		file.Seek(0, io.SeekStart)
	}
	text, _ := io.ReadAll(io.LimitReader(file, logTailBytes)) // after an error, the part that could be read is returned
	return strings.TrimSpace(string(text))
}

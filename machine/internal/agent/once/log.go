package once

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// The longest record has two paths of 4,096 bytes, escaped.
const lineBytesMax = 256 << 10

// logFile appends all records to one file, because each new file would cost 0.25 ms. The last line of a key is
// valid.
type logFile struct {
	file  *os.File
	bytes int64
}

// openLog cuts off a partly written last line, because the next append would continue that line.
func openLog(path string, each func(Record, int64)) (*logFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	l := &logFile{file: f}
	l.bytes = readLines(f, each)
	if err := f.Truncate(l.bytes); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func readLines(r io.Reader, each func(Record, int64)) (bytesRead int64) {
	scan := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := scan.ReadBytes('\n')
		if err != nil || len(line) > lineBytesMax {
			return bytesRead
		}
		var record Record
		if json.Unmarshal(bytes.TrimSpace(line), &record) != nil || record.Key == "" {
			return bytesRead
		}
		bytesRead += int64(len(line))
		each(record, int64(len(line)))
	}
}

func (l *logFile) append(r Record, durable bool) (int64, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	line = append(line, '\n')
	if _, err := l.file.WriteAt(line, l.bytes); err != nil {
		return 0, errors.Join(err, l.file.Truncate(l.bytes))
	}
	if durable {
		if err := l.file.Sync(); err != nil {
			return 0, errors.Join(err, l.file.Truncate(l.bytes))
		}
	}
	l.bytes += int64(len(line))
	return int64(len(line)), nil
}

func (l *logFile) rewrite(path string, records []Record) error {
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	fresh := &logFile{file: f}
	for _, r := range records {
		if _, err := fresh.append(r, false); err != nil {
			return errors.Join(err, f.Close(), os.Remove(path+".new"))
		}
	}
	if err := errors.Join(f.Sync(), os.Rename(path+".new", path), syncDir(filepath.Dir(path))); err != nil {
		return errors.Join(err, f.Close())
	}
	old := l.file
	l.file, l.bytes = f, fresh.bytes
	return old.Close()
}

// syncDir makes a rename durable. Otherwise a crash may lose the renamed file, with the announcements that were
// synced to it later.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

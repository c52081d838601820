package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	shownEvery    = 500 * time.Millisecond
	shownLineMax  = 64 << 10
	shownChunkMax = 1 << 20
)

// shownLogs prints logs for a journal or a collector. Children write to files, so they never wait for a reader.
type shownLogs struct {
	dir   string
	out   io.Writer
	parts map[string]*shownLog
}

type shownLog struct {
	offset int64
	rest   []byte // the beginning of an unfinished line
}

func showLogs(ctx context.Context, config Config, out io.Writer) (wait func()) {
	s := shownLogs{dir: config.LogDir, out: out, parts: map[string]*shownLog{}}
	for _, child := range config.Children {
		part := &shownLog{}
		if info, err := os.Stat(logPath(config.LogDir, child.Name)); err == nil {
			part.offset = info.Size()
		}
		s.parts[child.Name] = part
	}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			sleep(ctx, shownEvery)
			s.show()
		}
	})
	return running.Wait
}

func (s *shownLogs) show() {
	for name, part := range s.parts {
		if err := part.show(logPath(s.dir, name), name, s.out); err != nil && !errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(s.out, "the log of %s cannot be shown: %v\n", name, err)
		}
	}
}

// show prints the new part of a log. A log that got shorter was truncated by boundLog, so it is read from 0.
func (l *shownLog) show(path, name string, out io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < l.offset {
		l.offset, l.rest = 0, nil
	}
	chunk := make([]byte, min(info.Size()-l.offset, shownChunkMax))
	n, err := file.ReadAt(chunk, l.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	l.offset += int64(n)
	l.rest = append(l.rest, chunk[:n]...)
	return l.print(name, out)
}

func (l *shownLog) print(name string, out io.Writer) error {
	for len(l.rest) > 0 {
		line, rest, ended := bytes.Cut(l.rest, []byte{'\n'})
		if len(line) > shownLineMax {
			line, rest, ended = l.rest[:shownLineMax], l.rest[shownLineMax:], true
		}
		if !ended {
			return nil
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", name, line); err != nil {
			return err
		}
		l.rest = rest
	}
	return nil
}

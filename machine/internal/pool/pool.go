// Package pool keeps workspaces' disks: subvolumes of one btrfs, each workspace within its own limit.
//
//	<mount>/ws/<workspace>/disks/<name>        subvolume: upper/ work/ state/
//	<mount>/ws/<workspace>/checkpoints/<id>/   plain directory, filled by the engine
//	<mount>/ws/<workspace>/quota               id of its level-1 quota group
//	<mount>/volumes/<id>/                      data/ and quota
//	<mount>/spare/<name>/                      a future workspace: one blank disk
//	<mount>/trash/<random>                     a workspace being deleted
//
// Mounts are made in the caller's mount namespace. The pool keeps no other state.
package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

type Config struct {
	Image        string // file that contains the btrfs; "": Mount is a directory of a mounted btrfs
	Mount        string
	SizeBytes    int64 // size of a new image; an existing image is not resized
	ReserveBytes int64 // free space that new disks and forks leave for suspends, restores and deletes
}

type Pool struct {
	config Config
	root   *os.File
	fsid   string
	simple bool // simple quotas; classic qgroups otherwise
	behind writeBehind

	mu    sync.Mutex
	taken map[string]bool // names in the trash that a goroutine is deleting

	sweeping               sync.Mutex
	orphans, orphansBefore map[uint64]bool // quota groups without a subvolume, at this sweep and at the previous one
}

const unmountTries = 50 // 20 ms apart: a killed sandbox closes its files a moment after its death

// Open mounts the pool. If the image does not exist, it creates one.
func Open(ctx context.Context, c Config) (*Pool, error) {
	c.Mount = filepath.Clean(c.Mount)
	if err := os.MkdirAll(c.Mount, 0o700); err != nil {
		return nil, err
	}
	if c.Image != "" {
		if err := openImage(ctx, c); err != nil {
			return nil, err
		}
	}
	p, err := adopt(c)
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{p.workspaces(), p.volumes(), p.spares(), p.trash()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			p.root.Close()
			return nil, err
		}
	}
	return p, nil
}

func openImage(ctx context.Context, c Config) error {
	mounted, err := mountedFrom(c.Mount, c.Image)
	if err != nil || mounted {
		return err
	}
	if _, err := os.Stat(c.Image); errors.Is(err, os.ErrNotExist) {
		if err := createImage(ctx, c); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return mountImage(c)
}

func adopt(c Config) (*Pool, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(c.Mount, &stat); err != nil {
		return nil, fmt.Errorf("statfs %s: %w", c.Mount, err)
	}
	if int64(stat.Type) != unix.BTRFS_SUPER_MAGIC {
		return nil, fmt.Errorf("the pool %s is not on btrfs (type %x): name an image file or a btrfs directory", c.Mount, stat.Type)
	}
	root, err := os.Open(c.Mount)
	if err != nil {
		return nil, err
	}
	p := &Pool{config: c, root: root, taken: map[string]bool{}}
	p.behind.commit, p.behind.delay = p.commit, commitDelay
	if p.fsid, err = FilesystemID(root); err == nil {
		err = p.enableQuotas()
	}
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("pool %s: %w", c.Mount, err)
	}
	return p, nil
}

// Close unmounts the image, which detaches its loop device. A directory of another btrfs remains mounted.
func (p *Pool) Close() error {
	p.WaitDurable()
	p.root.Close()
	if p.config.Image == "" {
		return nil
	}
	var err error
	for range unmountTries {
		if err = unix.Unmount(p.config.Mount, 0); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", p.config.Mount, err)
	}
	return nil
}

// Usage returns bytes. free includes the reserve.
func (p *Pool) Usage() (total, free, reserve int64, err error) {
	var stat unix.Statfs_t
	if err := unix.Fstatfs(int(p.root.Fd()), &stat); err != nil {
		return 0, 0, 0, err
	}
	return int64(stat.Blocks) * stat.Bsize, int64(stat.Bavail) * stat.Bsize, p.config.ReserveBytes, nil
}

// Admit refuses new objects with ENOSPC if only the reserve is left. Snapshots within a workspace (suspend, restore,
// start again) may use the reserve, so they do not call Admit.
func (p *Pool) Admit() error {
	_, free, reserve, err := p.Usage()
	if err != nil {
		return err
	}
	if free <= reserve {
		return fmt.Errorf("the disk pool has %d MiB free and keeps %d MiB in reserve: %w", free>>20, reserve>>20, unix.ENOSPC)
	}
	return nil
}

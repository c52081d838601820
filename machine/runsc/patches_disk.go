package main

const (
	goferFilesystem = "gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer/filesystem.go"
	directfsInode   = "gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer/directfs_inode.go"
)

// diskPatches show a guest the size of its disk. What the host says of the file system is the size of the pool that all disks lie in: no
// program could see its limit coming. hostd puts what it may be told below the root that every sandbox has (machine/internal/engine,
// MountDisk): how large the disk is to be called, and, mounted, what the kernel counts of it. A sandbox without that is told of the pool.
var diskPatches = []patch{
	{
		file: goferFilesystem,
		old:  "\tstatfs.Type = linux.V9FS_MAGIC\n\treturn statfs, nil\n",
		new: `	statfs.Type = linux.V9FS_MAGIC
	if root, ok := fs.root.inode.impl.(*directfsInode); ok {
		root.limit(&statfs)
	}
	return statfs, nil
`,
	},
	{
		file: directfsInode,
		old:  "func (i *directfsInode) statfs() (linux.Statfs, error) {\n",
		new: `// limit says no more of a file system than the quota of the disk lets it have.
func (i *directfsInode) limit(statfs *linux.Statfs) {
	size, ok := i.number("inc/disk_bytes")
	if !ok || statfs.BlockSize <= 0 {
		return
	}
	limit, ok := i.number("claim/quota/max_referenced")
	if !ok {
		return
	}
	used, ok := i.number("claim/quota/referenced")
	if !ok {
		return
	}
	reserved, _ := i.number("claim/quota/rsv_data")
	var left uint64
	if used += reserved; used < limit {
		left = min(limit-used, size)
	}
	block := uint64(statfs.BlockSize)
	statfs.Blocks = size / block
	statfs.BlocksFree = min(left/block, statfs.BlocksAvailable)
	statfs.BlocksAvailable = statfs.BlocksFree
}

// number reads a small file of hostd's or of the kernel's below the root.
func (i *directfsInode) number(path string) (uint64, bool) {
	fd, err := unix.Openat(i.controlFD, path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var text [24]byte
	n, err := unix.Pread(fd, text[:], 0)
	if err != nil {
		return 0, false
	}
	var number uint64
	digits := 0
	for ; digits < n && text[digits] >= '0' && text[digits] <= '9'; digits++ {
		number = number*10 + uint64(text[digits]-'0')
	}
	return number, digits > 0
}

func (i *directfsInode) statfs() (linux.Statfs, error) {
`,
	},
}

package main

const (
	goferSaveRestore = "gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer/save_restore.go"
	goferInodeImpl   = "gvisor.dev/gvisor/pkg/sentry/fsimpl/gofer/inode_impl.go"
)

// volumePatches: a file of a shared mount that a guest has open belongs to its neighbours as well. While the guest is saved and sleeps they
// change it, move it and remove it, and so a save or a restore that insists on it would fail, and with it everything that the guest is. What
// is not found again by its name becomes one that is empty and cannot be written, as a file that was removed on a server would be: hostd puts
// an empty file and an empty directory below the root of such a mount (machine/internal/engine, makePlaces).
var volumePatches = []patch{
	{
		// What a neighbour has removed or replaced while it was open here.
		file: goferSaveRestore,
		old:  "func (d *dentry) prepareSaveDead(ctx context.Context) error {\n",
		new: `// isShared: others change what the mount shows.
func (fs *filesystem) isShared() bool {
	return fs.opts.interop == InteropModeShared
}

func (d *dentry) prepareSaveDead(ctx context.Context) error {
	if !d.inode.fs.isShared() {
		return d.prepareSaveDeadOwn(ctx)
	}
	if d.isDeleted() {
		err := d.prepareSaveDeadOwn(ctx)
		if err == nil {
			return nil
		}
		log.Warningf("%v", err)
		d.inode.savedDeletedData = nil
	}
	fs := d.inode.fs
	if d.inode.isReadHandleOk() || d.inode.isWriteHandleOk() {
		fs.savedDentryRW[d] = savedDentryRW{read: d.inode.isReadHandleOk(), write: d.inode.isWriteHandleOk()}
	}
	if fs.savedDeletedOpenDentries == nil {
		fs.savedDeletedOpenDentries = make(map[*dentry]struct{})
	}
	fs.savedDeletedOpenDentries[d] = struct{}{}
	return nil
}

func (d *dentry) prepareSaveDeadOwn(ctx context.Context) error {
`,
	},
	{
		// A volume that is full says so to whoever writes, and not to a save.
		file: goferSaveRestore,
		old:  "\tif err := fs.Sync(ctx); err != nil {\n\t\treturn err\n\t}\n\n\treturn fs.root.prepareSaveRecursive(ctx)\n",
		new:  "\tif err := fs.Sync(ctx); err != nil && !fs.isShared() {\n\t\treturn err\n\t}\n\n\treturn fs.root.prepareSaveRecursive(ctx)\n",
	},
	{
		file: goferSaveRestore,
		old:  "\tfor leafD, name := range filesToDelete {\n\t\tif err := leafD.parent.Load().inode.unlink(ctx, name, 0 /* flags */); err != nil {\n",
		new:  "\tfor leafD, name := range filesToDelete {\n\t\tif err := leafD.parent.Load().inode.unlink(ctx, name, 0 /* flags */); err != nil && !fs.isShared() {\n",
	},
	{
		file: goferSaveRestore,
		old:  "\t\t\tif err := leafD.parent.Load().inode.unlink(ctx, dirsToDelete[leafD], linux.AT_REMOVEDIR); err != nil {\n",
		new:  "\t\t\tif err := leafD.parent.Load().inode.unlink(ctx, dirsToDelete[leafD], linux.AT_REMOVEDIR); err != nil && !fs.isShared() {\n",
	},
	{
		file: goferSaveRestore,
		old:  "func (d *dentry) restoreDeleted(ctx context.Context, opts *vfs.CompleteRestoreOptions, filesToDelete, dirsToDelete map[*dentry]string) error {\n\tparent := d.parent.Load()\n",
		new: `func (d *dentry) restoreDeleted(ctx context.Context, opts *vfs.CompleteRestoreOptions, filesToDelete, dirsToDelete map[*dentry]string) error {
	fs := d.inode.fs
	if !fs.isShared() {
		return d.restoreDeletedOwn(ctx, opts, filesToDelete, dirsToDelete)
	}
	if d.isDeleted() && (d.isDir() || d.inode.savedDeletedData != nil) {
		err := d.restoreDeletedOwn(ctx, opts, filesToDelete, dirsToDelete)
		if err == nil {
			return nil
		}
		log.Warningf("%v", err)
	}
	delete(fs.savedDeletedOpenDentries, d)
	d.inode.savedDeletedData = nil
	return d.restoreGone()
}

func (d *dentry) restoreDeletedOwn(ctx context.Context, opts *vfs.CompleteRestoreOptions, filesToDelete, dirsToDelete map[*dentry]string) error {
	parent := d.parent.Load()
`,
	},
	{
		file: goferSaveRestore,
		old:  "\tif err != nil {\n\t\treturn fmt.Errorf(\"failed to open handle for specialFileFD for %q: %w\", genericDebugPathname(d.inode.fs, d), err)\n\t}\n",
		new: `	if err != nil && d.inode.fs.isShared() {
		gone, err := d.inode.fs.openGone("file", 0)
		if err != nil {
			return err
		}
		fd.handle = handle{fd: int32(gone)}
		fd.mmapFile.SetFD(gone)
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to open handle for specialFileFD for %q: %w", genericDebugPathname(d.inode.fs, d), err)
	}
`,
	},
	{
		file: goferInodeImpl,
		old:  "func (d *dentry) restoreFile(ctx context.Context, opts *vfs.CompleteRestoreOptions) error {\n",
		new: `func (d *dentry) restoreFile(ctx context.Context, opts *vfs.CompleteRestoreOptions) error {
	err := d.restoreFileOwn(ctx, opts)
	if err == nil || !d.inode.fs.isShared() {
		return err
	}
	log.Warningf("%v", err)
	if gone := d.restoreGone(); gone != nil {
		return fmt.Errorf("%w; %v", err, gone)
	}
	return nil
}

// openGone opens what stands for something that is not there any more.
func (fs *filesystem) openGone(what string, flags int) (int, error) {
	root, ok := fs.root.inode.impl.(*directfsInode)
	if !ok {
		return -1, fmt.Errorf("nothing stands for what is gone in mount %q", fs.iopts.UniqueID)
	}
	fd, err := unix.Openat(root.controlFD, ".gone/"+what, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return -1, fmt.Errorf("nothing stands for what is gone in mount %q: %w", fs.iopts.UniqueID, err)
	}
	return fd, nil
}

// restoreGone has a dentry go on as something empty that cannot be written. Its name is looked up anew by whoever comes next.
func (d *dentry) restoreGone() error {
	i, ok := d.inode.impl.(*directfsInode)
	if !ok {
		return fmt.Errorf("not a file of the host")
	}
	fs := i.fs
	if i.controlFD >= 0 {
		fs.inodeMu.Lock()
		if fs.inodeByKey[i.inoKey] == &i.inode {
			delete(fs.inodeByKey, i.inoKey)
		}
		fs.inodeMu.Unlock()
		_ = unix.Close(i.controlFD)
		i.controlFD = -1
	}
	what, flags := "file", 0
	if d.isDir() {
		what, flags = "dir", unix.O_DIRECTORY
	}
	fd, err := fs.openGone(what, flags)
	if err != nil {
		return err
	}
	var stat unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &stat); err != nil {
		_ = unix.Close(fd)
		return err
	}
	i.controlFD, i.inoKey = fd, inoKeyFromUnixStatx(&stat)
	i.metadataMu.Lock()
	i.updateMetadataFromStatxLocked(&stat)
	i.metadataMu.Unlock()
	rw, ok := fs.savedDentryRW[d]
	if !ok {
		return nil
	}
	i.handleMu.Lock()
	defer i.handleMu.Unlock()
	if rw.read && i.readFD.RacyLoad() < 0 {
		read, err := fs.openGone(what, flags)
		if err != nil {
			return err
		}
		i.readFD.Store(int32(read))
		i.mmapFD.Store(int32(read))
		i.mmapFile.SetFD(read)
	}
	if rw.write && i.writeFD.RacyLoad() < 0 {
		write, err := fs.openGone(what, flags)
		if err != nil {
			return err
		}
		i.writeFD.Store(int32(write))
	}
	return nil
}

func (d *dentry) restoreFileOwn(ctx context.Context, opts *vfs.CompleteRestoreOptions) error {
`,
	},
	{
		// Another kind of thing has the name by now.
		file: directfsInode,
		old:  "\ti.controlFD = controlFD\n\t// We do not preserve inoKey across checkpoint/restore, so:\n",
		new: `	if i.fs.isShared() && uint32(stat.Mode)&unix.S_IFMT != i.inode.fileType() {
		_ = unix.Close(controlFD)
		return fmt.Errorf("%q in mount %q is of another type", genericDebugPathname(i.fs, d), i.fs.iopts.UniqueID)
	}
	i.controlFD = controlFD
	// We do not preserve inoKey across checkpoint/restore, so:
`,
	},
	{
		// What stands for a pipe that is gone is a file.
		file: directfsInode,
		old:  "\tif got, want := uint32(stat.Mode)&unix.S_IFMT, i.inode.fileType(); got != want {\n",
		new:  "\tif got, want := uint32(stat.Mode)&unix.S_IFMT, i.inode.fileType(); got != want {\n\t\tif i.fs.isShared() {\n\t\t\treturn\n\t\t}\n",
	},
}

"""Unpacks untrusted tars in a root of their own: links and `..` cannot leave it. Run in a machine of a build, never on the host."""

import errno
import gzip
import hashlib
import json
import os
import shutil
import stat
import subprocess
import tarfile
import zlib

MIB = 1 << 20
HEADER_BYTES_MAX = MIB
PATH_BYTES_MAX = 4000
NAME_BYTES_MAX = 255
TIME_MAX = 1 << 33
ID_MAX = (1 << 32) - 2
HEADERS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


class Refused(Exception):
    pass


class Member(tarfile.TarInfo):
    """A header whose content is bounded, because it is read into memory."""

    def _proc_member(self, tar):
        if self.type in HEADERS and not 0 <= self.size <= HEADER_BYTES_MAX:
            raise Refused("an entry has a header of more than 1 MiB")
        return super()._proc_member(tar)


class Budget:
    """Limits of bytes and entries for all that is unpacked, counted before it is written."""

    def __init__(self, bytes_max, entries_max):
        self.bytes_left, self.entries_left = bytes_max, entries_max
        self.bytes_max, self.entries_max = bytes_max, entries_max

    def take(self, size):
        self.entries_left -= 1
        self.bytes_left -= size
        if self.entries_left < 0:
            raise Refused(f"it has more than {self.entries_max} entries")
        if self.bytes_left < 0:
            raise Refused(f"it holds more than {self.bytes_max} bytes")


class Stream:
    """Uncompressed bytes of an archive, with their digest. Bytes between the files are bounded, too."""

    def __init__(self, inner, bytes_max):
        self.inner, self.left, self.digest = inner, bytes_max, hashlib.sha256()

    def read(self, size):
        data = self.inner.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise Refused("it holds more than it may when it is uncompressed")
        self.digest.update(data)
        return data

    def drain(self):
        while self.read(MIB):
            pass
        return "sha256:" + self.digest.hexdigest()


def opened(raw, budget):
    """@param raw the archive's file, at its beginning."""
    magic = raw.peek(6)[:6]
    bytes_max = budget.bytes_max + budget.entries_max * 2 * tarfile.BLOCKSIZE + MIB
    if magic[:2] == b"\x1f\x8b":
        return Stream(gzip.GzipFile(fileobj=raw), bytes_max)
    if magic[:4] == b"\x28\xb5\x2f\xfd":
        program = shutil.which("zstd")
        if program is None:
            raise Refused("it is compressed by zstd: only gzip is known")
        os.lseek(raw.fileno(), 0, os.SEEK_SET)
        return Stream(subprocess.Popen([program, "-dcq"], stdin=raw, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout, bytes_max)
    if magic[:3] == b"BZh" or magic == b"\xfd7zXZ\x00":
        raise Refused("it is compressed by bzip2 or xz: only gzip is known")
    return Stream(raw, bytes_max)


def shown(name):
    return json.dumps(name[:200])


def parts_of(name):
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise Refused(f"{shown(name)} leads out of it")
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    if sum(sizes) + len(sizes) > PATH_BYTES_MAX or any(size > NAME_BYTES_MAX for size in sizes):
        raise Refused(f"{shown(name)} is too long")
    return parts


class Tree:
    """The directory that receives all entries. It is the root of this process: `/`."""

    def __init__(self, budget):
        self.budget, self.directory_times, self.devices = budget, {}, 0

    def unpack(self, stream, is_layer):
        """@param is_layer: names that begin with .wh. remove entries of the layers below."""
        own = set()
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=Member, encoding="utf-8", errors="surrogateescape") as tar:
            while (member := tar.next()) is not None:
                tar.members = []  # otherwise tarfile keeps all members in memory
                if member.size < 0:
                    raise Refused("an entry says that it has less than no bytes")
                parts = parts_of(member.name)
                self.budget.take(member.size if member.isreg() else 0)
                if not parts:
                    continue
                if is_layer and parts[-1].startswith(".wh."):
                    self.white_out(parts, own)
                    continue
                self.place(tar, member, parts)
                if is_layer:
                    own.update("/" + "/".join(parts[: at + 1]) for at in range(len(parts)))

    def white_out(self, parts, own):
        place, name = "/" + "/".join(parts[:-1]), parts[-1]
        if name == ".wh..wh..opq":
            self.empty(place, own)
        elif not name.startswith(".wh..wh."):
            hidden = name[len(".wh.") :]
            if hidden in ("", ".", ".."):
                raise Refused(f"{shown('/'.join(parts))} hides no name")
            self.remove(place.rstrip("/") + "/" + hidden)

    def empty(self, place, own):
        """Removes entries of the layers below; entries of this layer stay."""
        try:
            names = os.listdir(place)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            path = place.rstrip("/") + "/" + name
            if path not in own:
                self.remove(path)
            elif stat.S_ISDIR(os.lstat(path).st_mode):
                self.empty(path, own)

    def remove(self, path):
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISDIR(mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def place(self, tar, member, parts):
        path, parent = "/" + "/".join(parts), parts[:-1]
        self.make_parents(member.name, parent)
        if member.ischr() or member.isblk():
            self.devices += 1  # a machine makes its own devices
            return
        source = "/" + "/".join(parts_of(member.linkname)) if member.islnk() else None
        if source == path:
            return
        if source is not None and not self.is_linkable(source):
            raise Refused(f"{shown(member.name)} is a link to what is not there, or is a directory")
        is_kept = member.isdir() and os.path.isdir(path) and not os.path.islink(path)
        if not is_kept:
            self.remove(path)
        if member.isdir():
            if not is_kept:
                os.mkdir(path, 0o755)
            self.directory_times[path] = self.time(member)
        elif source is not None:
            os.link(source, path, follow_symlinks=False)
            return
        elif member.issym():
            if member.linkname == "" or len(member.linkname.encode("utf-8", "surrogateescape")) > PATH_BYTES_MAX:
                raise Refused(f"{shown(member.name)} is a link to no path")
            os.symlink(member.linkname, path)
        elif member.isfifo():
            os.mkfifo(path, 0o600)
        elif member.isreg():
            self.write(tar, member, path)
        else:
            raise Refused(f"{shown(member.name)} is of a kind that is not known")
        self.own(member, path)

    def make_parents(self, name, parent):
        place = ""
        for part in parent:
            place += "/" + part
            try:
                if not stat.S_ISDIR(os.stat(place).st_mode):
                    raise Refused(f"{shown(name)} is below what is no directory")
            except FileNotFoundError:
                if os.path.islink(place):
                    raise Refused(f"{shown(name)} is below a link to what is not there")
                os.mkdir(place, 0o755)

    def is_linkable(self, path):
        try:
            return not stat.S_ISDIR(os.lstat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def write(self, tar, member, path):
        content, left = tar.extractfile(member), member.size
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            while left > 0:
                data = content.read(min(left, MIB))
                if not data:
                    raise Refused("it ends too early")
                file.write(data)
                left -= len(data)

    def own(self, member, path):
        if not (0 <= member.uid <= ID_MAX and 0 <= member.gid <= ID_MAX):
            raise Refused(f"{shown(member.name)} is of a user that cannot be")
        os.chown(path, member.uid, member.gid, follow_symlinks=False)
        if not member.issym():
            os.chmod(path, member.mode & 0o7777)  # after chown, which removes the setuid bit
        if not member.isdir():
            os.utime(path, (self.time(member),) * 2, follow_symlinks=False)

    @staticmethod
    def time(member):
        return min(max(int(member.mtime), 0), TIME_MAX)

    def end(self):
        for path, time in self.directory_times.items():
            if os.path.isdir(path) and not os.path.islink(path):
                os.utime(path, (time, time))
        if self.devices > 0:
            print(f"{self.devices} device files are left out: a machine has its own")
        used = self.budget
        print(f"unpacked {used.entries_max - used.entries_left} entries with {used.bytes_max - used.bytes_left} bytes", flush=True)


def in_root(root, work):
    """Runs the work in another process, with this root. Raises its error here."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.chroot(root)
            os.chdir("/")
            os.umask(0)
            work()
            os._exit(0)
        except BaseException as error:  # the parent reports it
            os.write(writer, reason_of(error).encode("utf-8", "replace")[:4096])
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as words:
        said = words.read()
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise Refused(said.decode("utf-8", "replace") or "unpacking it was ended: the memory of the build may not suffice")


def reason_of(error):
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "it does not fit on the disk of the build"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it has links that lead in a circle"
    if isinstance(error, (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)):
        return f"it is no whole tar: {error}"
    return f"it cannot be unpacked: {type(error).__name__}: {error}"

"""Unpacks an upload that is the base of a template: a tar of a root file system, or of an OCI image layout.

Run as root in a machine of the build, never on the host: `base.py UPLOAD WORK BYTES_MAX ENTRIES_MAX`. Writes the root file system to
WORK/root. An invalid upload ends it with exit code 3 and one line on stderr.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import sys

from tar_tree import MIB, Budget, Refused, Tree, in_root, opened, reason_of, shown

EXIT_REFUSED = 3
JSON_BYTES_MAX = 4 * MIB
LAYERS_MAX = 500
MACHINES = {"x86_64": ("amd64", 62), "aarch64": ("arm64", 183)}  # as OCI and as ELF name them


def read_below(layout, names, bytes_max):
    """Opens a file of the layout, and follows no link on the way."""
    place = os.open(layout, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names[:-1]:
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
        file = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
    except OSError:
        raise Refused(f"the image layout has no {'/'.join(names)}")
    finally:
        os.close(place)
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_size > bytes_max:
        raise Refused(f"{'/'.join(names)} of the image layout is no file, or too large")
    return os.fdopen(file, "rb")


def parsed(text, what):
    try:
        value = json.loads(text)
    except ValueError:
        raise Refused(f"{what} of the image layout is not JSON")
    if not isinstance(value, dict):
        raise Refused(f"{what} of the image layout is no object")
    return value


def field(value, name, kind, what):
    found = value.get(name)
    if not isinstance(found, kind) or isinstance(found, bool):
        raise Refused(f"{what} of the image layout has no {name}")
    return found


class Layout:
    def __init__(self, place, bytes_max):
        self.place, self.bytes_max = place, bytes_max

    def blob(self, descriptor, what, bytes_max):
        """Opens the file of a descriptor, and checks its size and digest."""
        if not isinstance(descriptor, dict):
            raise Refused(f"{what} of the image layout is no descriptor")
        digest, size = field(descriptor, "digest", str, what), field(descriptor, "size", int, what)
        if not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            raise Refused(f"{what} of the image layout has a digest that is not sha256")
        file = read_below(self.place, ["blobs", "sha256", digest[7:]], bytes_max)
        hashed, length = hashlib.sha256(), 0
        while data := file.read(MIB):
            hashed.update(data)
            length += len(data)
        if length != size or "sha256:" + hashed.hexdigest() != digest:
            raise Refused(f"the blob {digest} is damaged: its bytes are not those of its name")
        file.seek(0)
        return file

    def json(self, descriptor, what):
        with self.blob(descriptor, what, JSON_BYTES_MAX) as file:
            return parsed(file.read(), what)

    def read(self):
        """@returns descriptors of the layers, the lowest first, each with its digest when uncompressed."""
        with read_below(self.place, ["index.json"], JSON_BYTES_MAX) as file:
            index = parsed(file.read(), "index.json")
        manifest = self.manifest(index, 0)
        config = self.json(manifest.get("config"), "the configuration")
        architecture, _ = MACHINES[os.uname().machine]
        if config.get("architecture") != architecture or config.get("os") != "linux":
            raise Refused(f"the image is for {shown(str(config.get('os')) + '/' + str(config.get('architecture')))}, and this computer is linux/{architecture}")
        layers = field(manifest, "layers", list, "the manifest")
        diff_ids = field(field(config, "rootfs", dict, "the configuration"), "diff_ids", list, "the configuration")
        if len(layers) != len(diff_ids) or not 1 <= len(layers) <= LAYERS_MAX:
            raise Refused(f"the image has {len(layers)} layers and names {len(diff_ids)}; 1 to {LAYERS_MAX} are known")
        return list(zip(layers, diff_ids))

    def manifest(self, index, depth):
        """Returns the manifest for this computer's platform. An index may contain one more index."""
        architecture, _ = MACHINES[os.uname().machine]
        descriptors = [each for each in field(index, "manifests", list, "the index") if isinstance(each, dict)]
        fitting = [each for each in descriptors if platform_of(each) in (None, ("linux", architecture))]
        if not fitting:
            names = ", ".join("/".join(platform_of(each) or ()) for each in descriptors[:10])
            raise Refused(f"the image is not for linux/{architecture}, but for {shown(names)}")
        if len({each.get("digest") for each in fitting}) > 1:
            raise Refused("the image layout holds several images: upload one of them")
        found = self.json(fitting[0], "the manifest")
        if "manifests" not in found:
            return found
        if depth > 0:
            raise Refused("the image layout has an index below an index below an index")
        return self.manifest(found, depth + 1)


def platform_of(descriptor):
    platform = descriptor.get("platform")
    if not isinstance(platform, dict):
        return None
    return (str(platform.get("os")), str(platform.get("architecture")))


def unpack_layers(layout, root, bytes_max, entries_max):
    layers = [(layout.blob(descriptor, "a layer", bytes_max), diff_id) for descriptor, diff_id in layout.read()]

    def work():
        tree = Tree(Budget(bytes_max, entries_max))
        for file, diff_id in layers:
            stream = opened(file, tree.budget)
            tree.unpack(stream, True)
            if stream.drain() != diff_id:
                raise Refused(f"a layer is not {shown(str(diff_id))} when it is uncompressed")
        tree.end()

    in_root(root, work)


def finish():
    """Checks that machines can start with this root, and adds what every machine needs. Runs inside the root."""
    for name in ("dev", "etc", "proc", "run", "sys", "tmp"):
        try:
            if not stat.S_ISDIR(os.lstat("/" + name).st_mode):
                raise Refused(f"/{name} is no directory")
        except FileNotFoundError:
            os.mkdir("/" + name, 0o1777 if name == "tmp" else 0o755)
    os.chmod("/", 0o755)
    check_shell()
    check_users()


def check_shell():
    machine = os.uname().machine
    try:
        with open("/bin/sh", "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused("/bin/sh is no program")
            is_executable, head = os.fstat(file.fileno()).st_mode & 0o111 != 0, file.read(20)
    except OSError:
        raise Refused("it has no /bin/sh")
    if head[:4] != b"\x7fELF" or not is_executable:
        raise Refused("/bin/sh is no program")
    if int.from_bytes(head[18:20], "little" if head[5] == 1 else "big") != MACHINES[machine][1]:
        raise Refused(f"its programs are not for {machine}, which this computer is")


def check_users():
    users = lines_of("/etc/passwd")
    if not any(each[0] == "root" and each[2] == "0" for each in users if len(each) >= 7):
        raise Refused("/etc/passwd has no root with the id 0")
    if any(each[0] == "user" for each in users):
        return
    groups = lines_of("/etc/group") if os.path.lexists("/etc/group") else []
    taken = {each[2] for each in users + groups if len(each) > 2}
    number = next(each for each in range(1000, 60000) if str(each) not in taken)
    append("/etc/passwd", f"user:x:{number}:{number}::/home/user:/bin/sh\n")
    if not any(each[0] == "user" for each in groups):
        append("/etc/group", f"user:x:{number}:\n")
    os.makedirs("/home/user", 0o755, exist_ok=True)
    os.chown("/home/user", number, number)
    print(f"it had no user called user, and has one with the id {number}", flush=True)


def lines_of(path):
    try:
        with open(path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Refused(f"{path} is no file")
            text = file.read(MIB + 1)
    except OSError:
        raise Refused(f"it has no {path}")
    if len(text) > MIB:
        raise Refused(f"{path} is too large")
    return [line.split(":") for line in text.decode("utf-8", "surrogateescape").split("\n") if line != ""]


def append(path, line):
    with open(path, "ab") as file:
        if file.tell() > 0:
            with open(path, "rb") as before:
                before.seek(-1, os.SEEK_END)
                if before.read(1) != b"\n":
                    file.write(b"\n")
        file.write(line.encode())


def main(upload, work, bytes_max, entries_max):
    root = os.path.join(work, "root")
    os.makedirs(root, 0o755)
    with open(upload, "rb") as raw:
        budget = Budget(bytes_max, entries_max)
        stream = opened(raw, budget)

        def work_on_upload():
            tree = Tree(budget)
            tree.unpack(stream, False)
            tree.end()

        in_root(root, work_on_upload)
    os.unlink(upload)
    is_there = lambda name: os.path.lexists(os.path.join(root, name))
    if is_there("oci-layout") and is_there("index.json"):
        place = os.path.join(work, "layout")
        os.rename(root, place)
        os.mkdir(root, 0o755)
        unpack_layers(Layout(place, bytes_max), root, bytes_max, entries_max)
        shutil.rmtree(place)
    elif is_there("manifest.json") and not is_there("etc"):
        raise Refused("it is an archive of docker save, and no image layout: `skopeo copy docker-archive:FILE oci:FOLDER` makes one")
    in_root(root, finish)


if __name__ == "__main__":
    sys.setrecursionlimit(6000)
    b"".decode("idna")  # loads the codec now: Python could not find it after the change of root
    try:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    except BaseException as error:
        print(" ".join(reason_of(error).split()), file=sys.stderr, flush=True)
        sys.exit(EXIT_REFUSED)

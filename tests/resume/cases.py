"""What survives a suspend, a hibernation, a fork and a restore: each case prepares a state, waits for the step and compares.

The docstrings are the rows of docs/guides/what-survives.md. `cases.py NAME` prepares, writes NAME.ready,
waits for NAME.go with the seconds that the machine did not run, and writes NAME.result: empty, or what is wrong. A case is a generator that yields once, where the step happens.
"""
import ctypes, fcntl, inspect, mmap, os, pty, select, signal, socket, sqlite3, struct, subprocess, sys, termios, threading, time

libc = ctypes.CDLL(None, use_errno=True)
FOLDER = os.path.expanduser("~/resume")


def equal(seen, expected, what):
    assert seen == expected, f"{what}: {seen!r}, expected {expected!r}"


def stopped_child():
    """A stopped process (SIGSTOP) stays stopped, and its parent sees its end."""
    child = subprocess.Popen(["sleep", "1000"], start_new_session=False)
    os.kill(child.pid, signal.SIGSTOP)
    helper = subprocess.run(["true"])  # the end of another child must not wake or end the group
    equal(helper.returncode, 0, "helper")
    state = lambda: open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()[0]
    while state() != "T":
        time.sleep(0.05)
    yield
    equal(state(), "T", "state of the stopped child")
    child.kill()
    equal(child.wait(), -9, "its end")


def removed_fifo():
    """A fifo that was removed while it is open, with the bytes in it."""
    os.mkfifo("fifo")
    fd = os.open("fifo", os.O_RDWR | os.O_NONBLOCK)
    os.unlink("fifo")
    os.write(fd, b"kept")
    yield
    equal(os.read(fd, 100), b"kept", "bytes in the removed fifo")


def named_fifo():
    """A fifo with the bytes in it."""
    os.mkfifo("named")
    fd = os.open("named", os.O_RDWR | os.O_NONBLOCK)
    os.write(fd, b"kept")
    yield
    equal(os.read(os.open("named", os.O_RDONLY | os.O_NONBLOCK), 100), b"kept", "bytes in the fifo")


def removed_sparse_file():
    """A file that was removed while it is open: contents, holes, offset, link count 0."""
    fd = os.open("sparse", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 3 << 30)
    for at, text in ((0, b"first"), (1 << 30, b"middle"), ((3 << 30) - 4, b"last")):
        os.pwrite(fd, text, at)
    os.unlink("sparse")
    os.lseek(fd, 77, os.SEEK_SET)
    yield
    equal([os.pread(fd, 6, 1 << 30), os.pread(fd, 4, (3 << 30) - 4), os.pread(fd, 3, 4096)], [b"middle", b"last", b"\0\0\0"], "contents")
    seen = os.fstat(fd)
    equal((seen.st_size, seen.st_nlink), (3 << 30, 0), "size and links")
    assert seen.st_blocks * 512 < 1 << 20, f"its holes take {seen.st_blocks * 512} bytes"
    equal(os.lseek(fd, 0, os.SEEK_CUR), 77, "offset")


def removed_directory():
    """A directory that was removed while it is open."""
    os.mkdir("gone")
    fd = os.open("gone", os.O_RDONLY)
    os.rmdir("gone")
    yield
    equal(os.listdir(fd), [], "a removed directory")


def clocks():
    """CLOCK_MONOTONIC stands still; CLOCK_BOOTTIME, CLOCK_REALTIME and /proc/uptime go on."""
    names = {"real": time.CLOCK_REALTIME, "boot": time.CLOCK_BOOTTIME, "mono": time.CLOCK_MONOTONIC}
    at = {name: time.clock_gettime(clock) for name, clock in names.items()}
    uptime = float(open("/proc/uptime").read().split()[0])
    slept = yield
    passed = {name: time.clock_gettime(clock) - at[name] for name, clock in names.items()}
    assert passed["mono"] >= 0 and passed["real"] >= slept - 1 and passed["boot"] >= slept - 1, passed
    assert passed["mono"] <= passed["real"] - slept + 2, f"CLOCK_MONOTONIC went on while nothing ran: {passed}, {slept}"
    assert float(open("/proc/uptime").read().split()[0]) - uptime >= slept - 1, "/proc/uptime stood still"


def a_timeout_has_its_rest():
    """A timeout of a program keeps the rest of its time."""
    early = []
    timer = threading.Timer(600, lambda: early.append("timer"))
    timer.daemon = True
    timer.start()
    yield
    time.sleep(1)
    equal(early, [], "timers of ten minutes that ended")
    timer.cancel()


def interval_timers():
    """Interval timers and alarms."""
    hits = []
    signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
    signal.setitimer(signal.ITIMER_REAL, 500, 500)
    yield
    left, every = signal.getitimer(signal.ITIMER_REAL)
    equal(every, 500, "the interval")
    assert 0 < left <= 500, left


def unix_sockets():
    """Listening Unix sockets, and bytes in a socket pair."""
    server = socket.socket(socket.AF_UNIX)
    server.bind("socket")
    server.listen()
    one, other = socket.socketpair()
    one.send(b"waiting")
    yield
    client = socket.socket(socket.AF_UNIX)
    client.connect("socket")
    accepted, _ = server.accept()
    client.send(b"new")
    equal([accepted.recv(9), other.recv(9)], [b"new", b"waiting"], "bytes of sockets")


def loopback_connection():
    """A TCP connection inside the workspace."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    client.send(b"before")
    yield
    client.send(b" after")
    time.sleep(0.2)
    equal(accepted.recv(99), b"before after", "bytes of a connection")


def epoll_and_eventfd():
    """epoll and eventfd."""
    event = os.eventfd(0)
    poll = select.epoll()
    poll.register(event, select.EPOLLIN)
    yield
    equal(poll.poll(0), [], "events before a write")
    os.eventfd_write(event, 3)
    equal([poll.poll(5), os.eventfd_read(event)], [[(event, select.EPOLLIN)], 3], "events after it")


def inotify():
    """inotify watches."""
    fd = libc.inotify_init1(os.O_NONBLOCK)
    os.mkdir("watched")
    assert libc.inotify_add_watch(fd, b"watched", 0x100) >= 0  # IN_CREATE
    yield
    open("watched/new", "w").close()
    time.sleep(0.2)
    assert b"new" in os.read(fd, 4096)


def locks():
    """Locks of files (flock) and of ranges (fcntl)."""
    held = open("locked", "w")
    fcntl.flock(held, fcntl.LOCK_EX)
    ranges = open("ranges", "w+")
    fcntl.lockf(ranges, fcntl.LOCK_EX, 10, 5)
    yield
    script = "import fcntl,sys\ntry: fcntl.%s; print('free')\nexcept BlockingIOError: print('held')"
    ask = lambda call: subprocess.run([sys.executable, "-c", script % call], capture_output=True, text=True).stdout.strip()
    equal(ask("flock(open('locked','w'),fcntl.LOCK_EX|fcntl.LOCK_NB)"), "held", "flock")
    equal(ask("lockf(open('ranges','r+'),fcntl.LOCK_EX|fcntl.LOCK_NB,1,7)"), "held", "a lock of a range")
    equal(ask("lockf(open('ranges','r+'),fcntl.LOCK_EX|fcntl.LOCK_NB,1,50)"), "free", "the range next to it")


def memory():
    """Memory: private, shared with a file, and memfd."""
    fd = os.open("mapped", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, 8192)
    shared = mmap.mmap(fd, 8192)
    shared[:5] = b"hello"
    private = mmap.mmap(-1, 1 << 20)
    private[:4] = b"anon"
    memfd = os.memfd_create("m")
    os.write(memfd, b"memfd")
    yield
    shared[5:11] = b" again"
    equal([open("mapped", "rb").read(11), private[:4], os.pread(memfd, 9, 0)], [b"hello again", b"anon", b"memfd"], "memory")


def shared_memory():
    """Shared memory: System V and /dev/shm."""
    shmget, shmat = libc.shmget, libc.shmat
    shmat.restype = ctypes.c_void_p
    key = shmget(0x7265, 4096, 0o1600)
    at = shmat(key, None, 0)
    ctypes.memmove(at, b"sysv", 4)
    with open("/dev/shm/resume", "wb") as file:
        file.write(b"posix")
    yield
    equal([ctypes.string_at(at, 4), open("/dev/shm/resume", "rb").read()], [b"sysv", b"posix"], "shared memory")


def pipes_and_children():
    """Bytes in a pipe, and a child that is waited for."""
    read, write = os.pipe()
    os.write(write, b"in the pipe")
    child = subprocess.Popen(["bash", "-c", "read line; echo got $line; exit 7"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield
    out, _ = child.communicate("word\n", timeout=20)
    equal([os.read(read, 99), out, child.returncode], [b"in the pipe", "got word\n", 7], "a pipe and a child")


def pending_signals():
    """Blocked and pending signals, and handlers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    hits = []
    signal.signal(signal.SIGUSR1, lambda *_: hits.append(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    status = lambda name: next(line.split()[1] for line in open("/proc/self/status") if line.startswith(name + ":"))
    yield
    bit = 1 << (signal.SIGUSR1 - 1)
    equal([int(status(name), 16) & bit for name in ("ShdPnd", "SigBlk", "SigCgt")], [bit] * 3, "/proc/self/status")
    equal(hits, [], "signals that were blocked")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    time.sleep(0.1)
    equal(hits, [1], "signals after they were let through")


def terminal():
    """A terminal: size and mode."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    attributes = termios.tcgetattr(child)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(child, termios.TCSANOW, attributes)
    yield
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(parent, termios.TIOCGWINSZ, b"\0" * 8))
    os.write(parent, b"line\n")
    time.sleep(0.1)
    equal([(rows, columns), os.read(child, 99)], [(33, 101), b"line\n"], "a terminal")
    equal(select.select([parent], [], [], 0.2)[0], [], "an echo that was turned off")


def process_attributes():
    """umask, nice, resource limits, environment, name."""
    os.umask(0o031)
    os.nice(3)
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (500, 900))
    os.environ["RESUME"] = "kept"
    libc.prctl(15, b"named", 0, 0, 0)  # PR_SET_NAME
    yield
    equal([os.umask(0), os.nice(0), resource.getrlimit(resource.RLIMIT_NOFILE)], [0o031, 3, (500, 900)], "umask, nice and limits")
    equal([os.environ["RESUME"], open("/proc/self/comm").read()], ["kept", "named\n"], "environment and name")


def sqlite_wal():
    """A SQLite database in WAL mode under a writer."""
    base = sqlite3.connect("wal.db", check_same_thread=False, timeout=30)
    base.execute("pragma journal_mode=wal")
    base.execute("create table rows (n integer)")
    stop, written = [], []

    def work():
        while not stop:
            with base:
                base.execute("insert into rows values (?)", (len(written),))
            written.append(1)
            time.sleep(0.2)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    yield
    before = len(written)
    time.sleep(1)
    stop.append(1)
    worker.join(20)
    assert len(written) > before, "the writer does not go on"
    check = sqlite3.connect("wal.db", timeout=30)
    equal(check.execute("pragma integrity_check").fetchone(), ("ok",), "the check")
    equal(check.execute("select count(*) from rows").fetchone(), (len(written),), "rows")


def directory_stream():
    """A directory that is being read."""
    os.mkdir("many")
    for number in range(3000):
        open(f"many/{number}", "w").close()
    stream = os.scandir("many")
    first = [next(stream).name for _ in range(1000)]
    yield
    rest = [entry.name for entry in stream]
    equal(len(set(first) | set(rest)), 3000, "names")
    equal(len(first) + len(rest), 3000, "names, none twice")


CASES = {
    name: case
    for name, case in list(globals().items())
    if inspect.isgeneratorfunction(case)
}


def main(name):
    os.makedirs(f"{FOLDER}/{name}", exist_ok=True)
    os.chdir(f"{FOLDER}/{name}")
    said = ""
    try:
        case = CASES[name]()
        next(case)
        open(f"{FOLDER}/{name}.ready", "w").close()
        while not os.path.exists(f"{FOLDER}/{name}.go"):
            time.sleep(0.5)
        case.send(float(open(f"{FOLDER}/{name}.go").read()))
    except StopIteration:
        pass
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    with open(f"{FOLDER}/{name}.said", "w") as file:
        file.write(said)
    os.rename(f"{FOLDER}/{name}.said", f"{FOLDER}/{name}.result")


main(sys.argv[1])

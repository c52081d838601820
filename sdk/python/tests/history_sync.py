# Made by tools/sync.py from tests/history_async.py. Do not change it by hand.
"""One random history of commands on a service that is far away, and comes and goes. Of the client for threads the same is said."""

from __future__ import annotations

import random
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable

from berth import Berth, Workspace

#: Disturbances during a command, each with its probability in percent.
TROUBLES = {"suspend": 24, "cell/kill": 5, "cell/stop": 4, "api/kill": 4, "api/stop": 3}
BYTES_MAX = 20_000
#: Threads that run the disturbances of all histories.
BESIDE = ThreadPoolExecutor(64)


def history(seed: int, url: str, key: str, trouble: Callable[[str, str], None]) -> None:
    """Each command runs once, each byte of its output comes once, and each write is there once."""
    draw = random.Random(seed)
    under_way: list[Future[None]] = []
    with Berth(url) as berth:
        ws = berth.open(key, template="base")
        names = ["a", "b", "c", "d"][: draw.randint(2, 4)]
        for name in names:
            if draw.random() < 0.1:
                ws = ws.fork(f"{key}-{name}")
            (what,) = draw.choices([None, *TROUBLES], [100 - sum(TROUBLES.values()), *TROUBLES.values()])
            begin = once(lambda what, id: under_way.append(BESIDE.submit(trouble, what, id)), what, ws.id)
            if what and draw.random() < 0.5:
                begin()
            if draw.random() < 0.2:
                echo(ws, name, draw, begin)
            else:
                count(ws, name, draw.randrange(BYTES_MAX), begin)
            begin()
            ws.files.write("/home/user/log", name, append=True)
        for each in under_way:
            each.result()
        # This resumes the workspace: the fake host cannot read the disk of a sleeping one.
        count(ws, "z", 0, begin)
        ran = [ws.files.read_text(f"/home/user/runs-{name}") for name in names]
        log = ws.files.read_text("/home/user/log")
        assert (ran, log) == (["x"] * len(names), "".join(names)), f"ran {ran}, wrote {log}"


def once(start: Callable[[str, str], None], what: str | None, id: str) -> Callable[..., None]:
    """Begins it, where it has not begun."""
    left = [what] if what else []

    def begin(*_seen: Any) -> None:
        if left:
            start(left.pop(), id)

    return begin


def count(ws: Workspace, name: str, size: int, on_output: Callable[..., None]) -> None:
    result = ws.exec(["python3", "-c", "", "count", name, str(size)], on_output=on_output)
    wanted = output_of(name, size)
    assert result.ok, f"{name}: {result.state} {result.exit_code}"
    assert result.stdout_bytes == wanted and result.stderr_bytes == wanted, f"{name}: {len(result.stdout_bytes)} of {size} bytes, or others"


def echo(ws: Workspace, name: str, draw: random.Random, on_output: Callable[..., None]) -> None:
    """What is written to a command comes back, once and in order."""
    command = ws.start(["python3", "-c", "", "echo", name, "0"], stdin_open=True)
    pieces = [output_of(str(at), draw.randrange(5000)) for at in range(draw.randint(1, 4))]
    for piece in pieces:
        command.write(piece)
        on_output()
    command.end()
    result = command.result()
    assert result.ok and result.stdout_bytes == b"".join(pieces), f"{name}: {len(result.stdout_bytes)} bytes came back, or others"


def output_of(name: str, size: int) -> bytes:
    """What the command called so writes on each of its streams."""
    return bytes((at * 31 + at // 251 + ord(name[0])) % 251 for at in range(size))

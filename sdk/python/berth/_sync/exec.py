# Made by tools/sync.py from berth/_async/exec.py. Do not change it by hand.
"""Commands."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Callable, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._requests import FOREVER_SECONDS, IMMEDIATE_REPEATS_MAX, Deadline, Request, deadline_of, given, may_repeat, new_id, wait_before
from .._results import CommandResult, OutputChunk, Reader, argv_of, checked, result_of, result_of_execution, stdin_of
from ..errors import BerthError, ConnectionFailedError, DeadlineError, NotFoundError, error_of
from . import platform
from .events import events_of
from .gateway import Gateway
from .transport import json_of

if TYPE_CHECKING:
    from .. import types

OnOutput = Callable[[OutputChunk], object]

STDIN_BYTES_MAX = 1 << 20


class Command:
    """A command of a workspace with a machine. It keeps running when no client is connected."""

    def __init__(self, gateway: Gateway, id: str, record: Mapping[str, Any] | None = None, stdin_bytes: int | None = None) -> None:
        self.id = id
        self._gateway = gateway
        #: Bytes taken from standard input; None until the first write, since another program may have written before.
        self._taken = stdin_bytes
        self._stdin = platform.Joined(self._take, STDIN_BYTES_MAX)
        self._ending = record if record is not None and record["state"] == "failed_to_start" else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r})"

    def status(self, *, wait_seconds: float | None = None) -> types.ExecSession:
        """Reads its record."""
        record: types.ExecSession = self._gateway.call(Request("GET", self._path()), wait_seconds)
        return record

    def signal(self, signal: str, *, wait_seconds: float | None = None) -> types.ExecSession:
        """Sends a signal, such as SIGINT, to its process group."""
        asked = Request("POST", self._path("/signal"), json={"signal": signal})
        record: types.ExecSession = self._gateway.call(asked, wait_seconds)
        return record

    def cancel(self, *, wait_seconds: float | None = None) -> types.ExecSession:
        """Sends SIGTERM, and SIGKILL after the grace time."""
        # A repeated cancel has no further effect.
        asked = Request("POST", self._path("/cancel"), json={}, repeats="keyed")
        record: types.ExecSession = self._gateway.call(asked, wait_seconds)
        return record

    def write(self, data: str | bytes, *, wait_seconds: float | None = None) -> None:
        """Writes to standard input of a command started with ``stdin_open``; each byte arrives once, even if the request is retried.

        Returns when the command's pipe has taken all bytes. Keeps the order of calls. After a failed write all later ones fail.
        """
        self._stdin.write(data.encode() if isinstance(data, str) else data, False, wait_seconds)

    def end(self, *, wait_seconds: float | None = None) -> None:
        """Closes standard input."""
        self._stdin.write(b"", True, wait_seconds)

    def __iter__(self) -> Iterator[OutputChunk]:
        return self.output()

    def output(
        self, *, stdout_offset: int = 0, stderr_offset: int = 0, follow: bool = True, wait_seconds: float | None = None
    ) -> Iterator[OutputChunk]:
        """Yields output from these offsets until the command ends, each byte once, across lost connections, suspends and resumes.

        ``follow=False``: returns the present output without waiting for more.
        """
        readers = {"stdout": Reader(stdout_offset), "stderr": Reader(stderr_offset)}
        deadline = deadline_of(wait_seconds, FOREVER_SECONDS)
        attempt = 0
        while self._ending is None or self._ending["state"] != "failed_to_start":
            try:
                with closing(self._events(readers, follow, deadline)) as events:
                    for event in events:
                        if event["type"] == "error":
                            raise error_of(event["error"])
                        if event["type"] == "exit":
                            if any(event[f"{name}_bytes"] > reader.next for name, reader in readers.items()):
                                raise ConnectionFailedError("Output is missing")
                            self._ending = event
                            return
                        if event["type"] != "output":
                            continue
                        taken = readers[event["stream"]].take(event["offset"], event["data"])
                        if taken is not None:
                            attempt = 0
                            yield OutputChunk(event["stream"], *taken)
                if not follow:
                    return
                raise ConnectionFailedError("The stream broke off")
            except BerthError as error:
                try:
                    self._put_right(error, attempt, deadline)
                except DeadlineError as over:
                    raise named(over, self.id) from over
            attempt += 1

    def result(
        self,
        *,
        check: bool | None = None,
        on_output: OnOutput | None = None,
        stdout_offset: int = 0,
        stderr_offset: int = 0,
        wait_seconds: float | None = None,
    ) -> CommandResult:
        """Waits for the end of the command. The result has its output from the given offsets on, as far as it is retained."""
        parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
        for chunk in self.output(stdout_offset=stdout_offset, stderr_offset=stderr_offset, wait_seconds=wait_seconds):
            parts[chunk.stream].append(chunk.bytes)
            if on_output is not None:
                on_output(chunk)
        assert self._ending is not None
        return checked(result_of(self.id, self._ending, b"".join(parts["stdout"]), b"".join(parts["stderr"])), check)

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancels the command if it still runs."""
        if self._ending is None:
            self.cancel()

    def _put_right(self, error: BerthError, attempt: int, deadline: Deadline) -> None:
        if isinstance(error, DeadlineError):
            raise error
        is_repaired = self._gateway.repair(error, deadline)
        if is_repaired and attempt < IMMEDIATE_REPEATS_MAX:
            return
        if not is_repaired and not may_repeat(error, "read"):
            raise error
        deadline.check()
        platform.sleep(min(wait_before(attempt, error.retry_after_seconds), max(deadline.left(), 0)))

    def _events(
        self, readers: Mapping[str, Reader], follow: bool, deadline: Deadline
    ) -> Generator[Mapping[str, Any], None]:
        query = {"stdout_offset": readers["stdout"].next, "stderr_offset": readers["stderr"].next, "follow": None if follow else False}
        return events_of(self._gateway, Request("GET", self._path("/output"), query=query), deadline)

    def _take(self, data: bytes, close: bool, wait_seconds: float | None) -> None:
        # The service drops bytes below the offset as a repeat.
        taken = self._taken if self._taken is not None else self._taken_before(wait_seconds)
        while data or close:
            body = data[:STDIN_BYTES_MAX]
            query = {"offset": taken, "close": True if close and len(body) == len(data) else None}
            headers = {"content-type": "application/octet-stream"}
            # The offset identifies every byte, so a retry writes nothing twice.
            asked = Request("POST", self._path("/stdin"), query=query, headers=headers, body=body, repeats="keyed")
            offset: int = (self._gateway.call(asked, wait_seconds))["offset"]
            data = data[offset - taken :]
            self._taken = taken = offset
            if close and not data:
                return

    def _taken_before(self, wait_seconds: float | None) -> int:
        stdin = (self.status(wait_seconds=wait_seconds)).get("stdin")
        return 0 if stdin is None else stdin["offset"]

    def _path(self, below: str = "") -> str:
        return f"/exec/{quote(self.id, safe='')}{below}"


def start_command(
    gateway: Gateway, command: str | Sequence[str], fields: Mapping[str, Any], stdin: str | bytes | None, wait_seconds: float | None
) -> Command:
    """Starts a command, once even if the request is retried. A cancelled call does not end it."""
    session_id = fields.get("session_id") or new_id()
    json = {**given(**fields), "argv": argv_of(command), **stdin_of(stdin), "session_id": session_id}
    try:
        record = gateway.call(Request("POST", "/exec", json=json, repeats="keyed"), wait_seconds)
    except DeadlineError as error:
        raise named(error, session_id) from error
    # If the command already ran, another program may have written to its stdin.
    given_bytes = len(stdin.encode() if isinstance(stdin, str) else stdin or b"")
    return Command(gateway, session_id, record, max(given_bytes, (record.get("stdin") or {}).get("offset", 0)))


def run_command(
    gateway: Gateway,
    line: str | Sequence[str],
    fields: Mapping[str, Any],
    stdin: str | bytes | None,
    check: bool | None,
    on_output: OnOutput | None,
    wait_seconds: float | None,
) -> CommandResult:
    """Runs a command to its end, in either mode of workspace. Cancels it when the caller is cancelled or interrupted."""
    if gateway.view["mode"] == "file_first":
        return _run_execution(gateway, line, fields, stdin, check, on_output, wait_seconds)
    deadline = deadline_of(wait_seconds, FOREVER_SECONDS)
    session_id = fields.get("session_id") or new_id()
    try:
        command = start_command(gateway, line, {**fields, "session_id": session_id}, stdin, wait_seconds)
        return command.result(check=check, on_output=on_output, wait_seconds=max(deadline.left(), 0))
    except platform.LEFT:

        def cancel() -> None:
            _cancel_left(Command(gateway, session_id))

        # Waits for a limited time: a program that exits or closes its client now would drop the request.
        platform.before_leaving(cancel, _LEAVE_SECONDS)
        raise


_LEAVE_SECONDS = 2.0
_CANCEL_SECONDS = 30.0
_START_SEEN_SECONDS = 5.0


def _cancel_left(command: Command) -> None:
    """Cancels a command after its caller has gone. A start may still be in flight, so a missing command is tried again."""
    deadline = Deadline(_CANCEL_SECONDS)
    until = Deadline(_START_SEEN_SECONDS)
    attempt = 0
    while True:
        try:
            command.cancel(wait_seconds=max(deadline.left(), 0))
            return
        except NotFoundError:
            if until.left() <= 0:
                return
        platform.sleep(wait_before(attempt, None))
        attempt += 1


def _run_execution(
    gateway: Gateway,
    command: str | Sequence[str],
    fields: Mapping[str, Any],
    stdin: str | bytes | None,
    check: bool | None,
    on_output: OnOutput | None,
    wait_seconds: float | None,
) -> CommandResult:
    sent = {name: value for name, value in given(**fields).items() if name != "session_id"}
    json: dict[str, Any] = {"execution_id": new_id(), **sent, "argv": argv_of(command), **stdin_of(stdin)}
    # The answer arrives when the command has ended.
    asked = Request("POST", "/exec", json=json, repeats="keyed", attempt_seconds=FOREVER_SECONDS)
    try:
        response = gateway.send(asked, deadline_of(wait_seconds, FOREVER_SECONDS))
    except DeadlineError as error:
        raise named(error, json["execution_id"], "execution") from error
    result = result_of_execution(json_of(response))
    if on_output is not None:
        if result.stdout_bytes:
            on_output(OutputChunk("stdout", 0, result.stdout_bytes, result.stdout))
        if result.stderr_bytes:
            on_output(OutputChunk("stderr", 0, result.stderr_bytes, result.stderr))
    return checked(result, check)


def named(error: DeadlineError, session_id: str, noun: str = "command") -> DeadlineError:
    """Adds the id to a deadline error: the command continues, and the caller can find it again."""
    id = error.session_id or session_id
    message = f'The time for this call is over; command {id} may still run: ws.{noun}("{id}") finds it again'
    return DeadlineError(message, session_id=id, operation_id=error.operation_id)

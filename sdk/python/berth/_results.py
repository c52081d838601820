"""Results of commands and terminals, shared by both clients."""

from __future__ import annotations

import base64
import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import BerthError, ConnectionFailedError


@dataclass(frozen=True)
class OutputChunk:
    """A piece of output. Offsets count bytes of its stream from 0, without gaps."""

    #: ``stdout`` or ``stderr``
    stream: str
    offset: int
    bytes: bytes
    #: The characters completed by these bytes.
    text: str


@dataclass(frozen=True)
class TerminalChunk:
    """A piece of a terminal's output."""

    offset: int
    bytes: bytes
    text: str


@dataclass(frozen=True)
class CommandResult:
    #: Id of the session; of the execution in a file-first workspace.
    id: str
    #: ``exited``, ``failed_to_start`` or ``lost``
    state: str
    #: None: it did not exit by itself; -1: a signal ended it.
    exit_code: int | None
    term_signal: str | None
    timed_out: bool
    #: Why it could not start, or was lost; None: neither.
    error: str | None
    stdout_bytes: bytes
    stderr_bytes: bytes
    #: The complete record, with changed files; None: the workspace is not file-first.
    execution: Mapping[str, Any] | None = None
    #: Set where it failed after the workspace killed one of its processes: ``out_of_memory``, ``process_limit``
    reason: str | None = None

    @property
    def ok(self) -> bool:
        """True if it exited by itself with code 0."""
        return self.state == "exited" and self.exit_code == 0

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode(errors="replace")


class CommandError(BerthError):
    """A command could not start, or its exit code was not 0: code ``command_failed``. ``result`` has all of its output."""

    def __init__(self, result: CommandResult) -> None:
        super().__init__(_ending_in(result), code="command_failed")
        self.result = result


_STDERR_CHARACTERS_SHOWN = 500


def _ending_in(result: CommandResult) -> str:
    """Adds the reason and the end of stderr to the message, since logs often contain only that."""
    if result.state == "failed_to_start":
        return f"The command could not start: {result.error or 'no reason is known'}"
    code = "unknown" if result.exit_code is None else result.exit_code
    how = result.error or result.term_signal or f"exit code {code}"
    why = " (its time was over)" if result.timed_out else f" ({result.reason})" if result.reason else ""
    said = result.stderr.strip()[-_STDERR_CHARACTERS_SHOWN:]
    return f"The command ended with {how}{why}{': ' + said if said else ''}"


def argv_of(command: str | Sequence[str]) -> list[str]:
    """A line runs in ``bash`` as a login shell, so that the template's profiles set PATH."""
    return ["bash", "-lc", command] if isinstance(command, str) else list(command)


def checked(result: CommandResult, check: bool | None) -> CommandResult:
    """None: raises only where the command could not start, since ``exit_code`` alone would not show that."""
    is_wrong = result.state == "failed_to_start" if check is None else check and not result.ok
    if is_wrong:
        raise CommandError(result)
    return result


class Reader:
    """Position in a stream. Drops repeated bytes, and raises where bytes are missing."""

    def __init__(self, offset: int = 0) -> None:
        self.next = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def take(self, offset: int, data: str) -> tuple[int, bytes, str] | None:
        if offset > self.next:
            raise ConnectionFailedError("Output is missing")
        fresh = base64.b64decode(data)[self.next - offset :]
        if not fresh:
            return None
        at = self.next
        self.next += len(fresh)
        return at, fresh, self._decoder.decode(fresh)


def result_of(id: str, ending: Mapping[str, Any], stdout: bytes, stderr: bytes) -> CommandResult:
    return CommandResult(
        id=id,
        state=ending["state"],
        exit_code=ending["exit_code"],
        term_signal=ending["term_signal"],
        timed_out=ending["timed_out"],
        error=ending["error"],
        stdout_bytes=stdout,
        stderr_bytes=stderr,
        reason=ending.get("reason"),
    )


def result_of_execution(execution: Mapping[str, Any]) -> CommandResult:
    error = execution["error"] or {}
    did_not_start = error.get("details", {}).get("reason") == "exec_failed_to_start"
    return CommandResult(
        id=execution["execution_id"],
        state="exited" if execution["state"] == "succeeded" else "failed_to_start" if did_not_start else "lost",
        exit_code=execution["exit_code"],
        term_signal=execution["term_signal"],
        timed_out=execution["timed_out"],
        error=error.get("message"),
        stdout_bytes=base64.b64decode(execution["stdout"]),
        stderr_bytes=base64.b64decode(execution["stderr"]),
        execution=execution,
    )


def stdin_of(stdin: str | bytes | None) -> dict[str, str]:
    if stdin is None:
        return {}
    if isinstance(stdin, str):
        return {"stdin": stdin}
    return {"stdin": base64.b64encode(stdin).decode(), "stdin_encoding": "base64"}

# Made by tools/sync.py from berth/_async/shell.py. Do not change it by hand.
"""Terminals."""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._requests import FOREVER_SECONDS, IMMEDIATE_REPEATS_MAX, Deadline, Request, deadline_of, given, may_repeat, new_id, wait_before
from .._results import Reader, TerminalChunk
from ..errors import BerthError, ConnectionFailedError, DeadlineError, error_of
from . import platform
from .exec import named
from .gateway import Gateway

if TYPE_CHECKING:
    from .. import types

_PROTOCOLS = ["berth.v1"]
_BEARER = "bearer."
_INPUT_BYTES_MAX = 32 << 10
_CONNECT_SECONDS = 70.0
_SILENCE_SECONDS = 60.0


class Terminal:
    """A terminal of a workspace. Output arrives once and in order, across lost connections.

    Input without a connection waits for the next one. Input in flight when a connection breaks may be lost, but is never repeated.
    """

    def __init__(self, gateway: Gateway, id: str, offset: int = 0) -> None:
        self.id = id
        #: How it ended; None while it is open.
        self.ending: Mapping[str, Any] | None = None
        self._gateway = gateway
        self._reader = Reader(offset)
        self._typed: list[str] = []
        self._socket: platform.Socket | None = None
        self._has_left = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r})"

    def write(self, data: str | bytes) -> None:
        """Sends input. It is sent only while a reader iterates over the output."""
        whole = data.encode() if isinstance(data, str) else data
        for at in range(0, len(whole), _INPUT_BYTES_MAX):
            piece = base64.b64encode(whole[at : at + _INPUT_BYTES_MAX]).decode()
            self._say({"type": "input", "data": piece})

    def resize(self, *, cols: int, rows: int) -> None:
        self._say({"type": "resize", "cols": cols, "rows": rows})

    def status(self, *, wait_seconds: float | None = None) -> types.TerminalSession:
        record: types.TerminalSession = self._gateway.call(Request("GET", self._path()), wait_seconds)
        return record

    def close(self, *, wait_seconds: float | None = None) -> types.TerminalSession:
        """Hangs up: the programs of the terminal get SIGHUP."""
        asked = Request("DELETE", self._path(), repeats="keyed")
        record: types.TerminalSession = self._gateway.call(asked, wait_seconds)
        return record

    def detach(self) -> None:
        """Disconnects. The terminal stays open, and ``ws.terminal(id, offset=…)`` reconnects to it."""
        self._has_left = True
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnects, and hangs up an open terminal."""
        self.detach()
        if self.ending is None:
            self.close()

    def __iter__(self) -> Iterator[TerminalChunk]:
        """Yields output until the terminal ends."""
        deadline = deadline_of(None, FOREVER_SECONDS)
        attempt = 0
        while not self._has_left:
            try:
                with closing(self._messages(deadline)) as messages:
                    for message in messages:
                        if message["type"] == "error":
                            raise error_of(message["error"])
                        if message["type"] == "exit":
                            if message["output_bytes"] > self._reader.next:
                                raise ConnectionFailedError("Output is missing")
                            self.ending = message
                            return
                        taken = self._reader.take(message["offset"], message["data"]) if message["type"] == "output" else None
                        if taken is not None:
                            attempt = 0
                            yield TerminalChunk(*taken)
                if self._has_left:
                    return
                raise ConnectionFailedError("The terminal broke off")
            except BerthError as error:
                if self._has_left:
                    return
                self._put_right(error, attempt, deadline)
            attempt += 1

    def _put_right(self, error: BerthError, attempt: int, deadline: Deadline) -> None:
        if self._gateway.repair(error, deadline) and attempt < IMMEDIATE_REPEATS_MAX:
            return
        if error.code == "unauthenticated" and attempt == 0:
            self._gateway.renewed(deadline)
            return
        if not may_repeat(error, "read"):
            raise error
        platform.sleep(wait_before(attempt, error.retry_after_seconds))

    def _messages(self, deadline: Deadline) -> Generator[Mapping[str, Any], None]:
        """Yields the messages of one connection."""
        url, token = self._gateway.target(deadline)
        at = f"/v1/workspaces/{self._gateway.id}{self._path('/attach')}?offset={self._reader.next}"
        socket = platform.connect(f"ws{url[len('http') :]}{at}", [*_PROTOCOLS, f"{_BEARER}{token}"], _CONNECT_SECONDS)
        try:
            self._socket = socket
            while self._typed:
                socket.send(self._typed.pop(0))
            while True:
                text = socket.receive(_SILENCE_SECONDS)
                if text is None:
                    return
                yield json.loads(text)
        finally:
            # Unless this end was awaited, a newer connection may already be stored.
            if self._socket is socket:
                self._socket = None
            socket.close()

    def _say(self, message: Mapping[str, Any]) -> None:
        text = json.dumps(message)
        if self._socket is None:
            self._typed.append(text)
        else:
            self._socket.send(text)

    def _path(self, below: str = "") -> str:
        return f"/pty/{quote(self.id, safe='')}{below}"


def open_terminal(
    gateway: Gateway, fields: Mapping[str, Any], offset: int, wait_seconds: float | None
) -> Terminal:
    """Opens a terminal, once even if the request is retried."""
    session_id = fields.get("session_id") or new_id()
    json = {**given(**fields), "session_id": session_id}
    try:
        record = gateway.call(Request("POST", "/pty", json=json, repeats="keyed"), wait_seconds)
    except DeadlineError as error:
        raise named(error, session_id, "terminal") from error
    if record["state"] == "failed_to_start":
        raise BerthError(record["error"] or "The terminal did not start", code="command_failed")
    return Terminal(gateway, session_id, offset)

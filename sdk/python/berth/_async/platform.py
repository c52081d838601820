"""Primitives of the ``asyncio`` client. ``_sync/platform.py`` has the same for threads; both are written by hand."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from .._pieces import Piece, count_together
from .._requests import Deadline
from ..errors import ConnectionFailedError, DeadlineError

#: Exceptions that interrupt a caller's wait from outside.
LEFT = (asyncio.CancelledError,)

#: Subprotocol names contain a terminal's token, and the WebSocket library would log them.
_SILENT = logging.getLogger("berth.silent")
_SILENT.disabled = True


def http_client() -> httpx.AsyncClient:
    # The server closes connections after five idle seconds; a reuse at that moment would lose a request.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50, keepalive_expiry=4)
    return httpx.AsyncClient(limits=limits, headers={"user-agent": "berth-python", "accept-encoding": "identity"})


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def afterwards(work: Callable[[], Awaitable[Any]]) -> None:
    """Runs work in the background. Its errors are dropped."""
    task = asyncio.ensure_future(work())
    _GOING.add(task)
    task.add_done_callback(_over)


async def before_leaving(work: Callable[[], Awaitable[Any]], seconds: float) -> None:
    """Runs work in the background, and waits for at most ``seconds``. A further cancel of the waiting task ends only the wait."""
    task = asyncio.ensure_future(work())
    _GOING.add(task)
    task.add_done_callback(_over)
    await asyncio.wait([task], timeout=seconds)


# Keeps references: asyncio holds tasks only weakly.
_GOING: set[asyncio.Future[Any]] = set()


def _over(task: asyncio.Future[Any]) -> None:
    _GOING.discard(task)
    if not task.cancelled():
        task.exception()


class Shared:
    """Shares one run of ``work`` between concurrent calls. A call that reaches its deadline leaves; the others continue."""

    def __init__(self, work: Callable[[Deadline], Awaitable[None]], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._going: asyncio.Future[None] | None = None

    async def done(self, deadline: Deadline) -> None:
        going = self._going
        if going is None or going.done():
            going = self._going = asyncio.ensure_future(self._work(Deadline(self._seconds)))
            going.add_done_callback(_over)
        # Waits for this run: another call may start the next before this one continues.
        await asyncio.wait([going], timeout=max(deadline.left(), 0))
        if not going.done():
            raise DeadlineError
        going.result()


class Joined:
    """Merges waiting pieces into requests of at most ``bytes_max`` bytes, sent in order. After a failed request all later ones fail."""

    def __init__(self, send: Callable[[bytes, bool, float | None], Awaitable[None]], bytes_max: int) -> None:
        self._send = send
        self._bytes_max = bytes_max
        self._waiting: list[tuple[Piece, asyncio.Future[None]]] = []
        self._sending = False
        self._broken: BaseException | None = None

    async def write(self, data: bytes, close: bool, wait_seconds: float | None) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((Piece(data, close, wait_seconds), done))
        if not self._sending:
            self._sending = True
            # Runs in the background: it also sends other callers' pieces after this caller has gone.
            await afterwards(self._send_all)
        await done

    async def _send_all(self) -> None:
        while self._waiting:
            count = count_together([piece for piece, _done in self._waiting], self._bytes_max)
            together, self._waiting = self._waiting[:count], self._waiting[count:]
            try:
                if self._broken is not None:
                    raise self._broken
                pieces = [piece for piece, _done in together]
                await self._send(b"".join(piece.data for piece in pieces), pieces[-1].close, pieces[0].wait_seconds)
                for _piece, done in together:
                    if not done.done():
                        done.set_result(None)
            except BaseException as error:
                self._broken = error
                for _piece, done in together:
                    if not done.done():
                        done.set_exception(error)
        self._sending = False


class Socket:
    """One connection of a terminal."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def send(self, text: str) -> None:
        """Sends a message. A broken connection drops it silently; the reader notices the break."""
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(text)
        except ConnectionClosed:
            pass

    async def receive(self, seconds: float) -> str | bytes | None:
        """Returns the next message; None: the connection has ended, or was silent for that long."""
        from websockets.exceptions import ConnectionClosed

        try:
            message: str | bytes = await asyncio.wait_for(self._connection.recv(), seconds)
            return message
        except (ConnectionClosed, asyncio.TimeoutError):
            return None

    async def close(self) -> None:
        await self._connection.close()


async def connect(url: str, protocols: list[str], seconds: float) -> Socket:
    from websockets.asyncio.client import connect as connected
    from websockets.exceptions import WebSocketException

    options: dict[str, Any] = {"subprotocols": protocols, "max_size": None, "compression": None, "logger": _SILENT}
    try:
        return Socket(await connected(url, open_timeout=seconds, ping_interval=None, close_timeout=2, **options))
    except (OSError, ssl.SSLError, asyncio.TimeoutError, WebSocketException):
        # Omits the cause, which may contain the subprotocol names.
        raise ConnectionFailedError("The terminal could not be reached") from None

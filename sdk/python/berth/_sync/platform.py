"""Primitives of the client for threads. ``_async/platform.py`` has the same for ``asyncio``; both are written by hand."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from .._pieces import Piece, count_together
from .._requests import Deadline
from ..errors import ConnectionFailedError, DeadlineError

#: Exceptions that interrupt a caller's wait from outside.
LEFT = (KeyboardInterrupt,)

#: Subprotocol names contain a terminal's token, and the WebSocket library would log them.
_SILENT = logging.getLogger("berth.silent")
_SILENT.disabled = True


def http_client() -> httpx.Client:
    # The server closes connections after five idle seconds; a reuse at that moment would lose a request.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50, keepalive_expiry=4)
    return httpx.Client(limits=limits, headers={"user-agent": "berth-python", "accept-encoding": "identity"})


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def afterwards(work: Callable[[], Any]) -> None:
    """Runs work in the background. Its errors are dropped."""
    _begin(work)


def before_leaving(work: Callable[[], Any], seconds: float) -> None:
    """Runs work in the background, and waits for at most ``seconds``."""
    _begin(work).join(seconds)


def _begin(work: Callable[[], Any]) -> threading.Thread:
    def quietly() -> None:
        try:
            work()
        except Exception:
            pass

    thread = threading.Thread(target=quietly)
    thread.start()
    return thread


class Shared:
    """Shares one run of ``work`` between concurrent calls. A call that reaches its deadline leaves; the others continue."""

    def __init__(self, work: Callable[[Deadline], None], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._lock = threading.Lock()
        self._times = 0

    def done(self, deadline: Deadline) -> None:
        seen = self._times
        if not self._lock.acquire(timeout=max(deadline.left(), 0)):
            raise DeadlineError
        try:
            # Another thread finished the work during the wait.
            if self._times != seen:
                return
            self._work(deadline.sooner(self._seconds))
            self._times += 1
        finally:
            self._lock.release()


class Joined:
    """Merges waiting pieces into requests of at most ``bytes_max`` bytes, sent in order. After a failed request all later ones fail."""

    def __init__(self, send: Callable[[bytes, bool, float | None], None], bytes_max: int) -> None:
        self._send = send
        self._bytes_max = bytes_max
        self._waiting: list[Piece] = []
        self._changed = threading.Condition()
        self._sending = False
        self._broken: BaseException | None = None

    def write(self, data: bytes, close: bool, wait_seconds: float | None) -> None:
        piece = Piece(data, close, wait_seconds)
        with self._changed:
            self._waiting.append(piece)
            self._changed.wait_for(lambda: piece.is_done or not self._sending)
            if not piece.is_done:
                self._sending = True
        if not piece.is_done:
            # One of the waiting threads sends for all, until its own piece is sent.
            try:
                while not piece.is_done:
                    if self._broken is not None:
                        raise self._broken
                    self._send_together()
            finally:
                with self._changed:
                    self._sending = False
                    self._changed.notify_all()
        if piece.error is not None:
            raise piece.error

    def _send_together(self) -> None:
        together: list[Piece] = []
        try:
            with self._changed:
                count = count_together(self._waiting, self._bytes_max)
                together, self._waiting = self._waiting[:count], self._waiting[count:]
            self._send(b"".join(piece.data for piece in together), together[-1].close, together[0].wait_seconds)
        except BaseException as error:
            self._broken = error
        with self._changed:
            for piece in together:
                piece.error = self._broken
                piece.is_done = True
            self._changed.notify_all()


class Socket:
    """One connection of a terminal."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def send(self, text: str) -> None:
        """Sends a message. A broken connection drops it silently; the reader notices the break."""
        from websockets.exceptions import ConnectionClosed

        try:
            self._connection.send(text)
        except ConnectionClosed:
            pass

    def receive(self, seconds: float) -> str | bytes | None:
        """Returns the next message; None: the connection has ended, or was silent for that long."""
        from websockets.exceptions import ConnectionClosed

        try:
            message: str | bytes = self._connection.recv(timeout=seconds)
            return message
        except (ConnectionClosed, TimeoutError):
            return None

    def close(self) -> None:
        self._connection.close()


def connect(url: str, protocols: list[str], seconds: float) -> Socket:
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect as connected

    options: dict[str, Any] = {"subprotocols": protocols, "max_size": None, "compression": None, "logger": _SILENT}
    try:
        return Socket(connected(url, open_timeout=seconds, ping_interval=None, close_timeout=2, **options))
    except (OSError, ssl.SSLError, WebSocketException):
        # Omits the cause, which may contain the subprotocol names.
        raise ConnectionFailedError("The terminal could not be reached") from None

"""What a request is, whether it is sent again, and how long a caller waits. The same for both clients."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .errors import BerthError, ConnectionFailedError, DeadlineError

#: What repeating a request would do. ``read``: nothing. ``keyed``: nothing more, since the service knows it again by a key or an id of
#: the caller's. ``once``: perhaps the same change again.
Repeats = Literal["read", "keyed", "once"]

CALL_SECONDS = 120.0
#: Of the application API, which an operation that is waited for belongs to.
OPERATION_SECONDS = 16 * 60.0
TRANSFER_SECONDS = 60 * 60.0
FOREVER_SECONDS = 365 * 86_400.0
#: A gateway may wake a machine first, and an api holds an answer for 20 seconds. A heartbeat of a stream comes every 15.
ATTEMPT_SECONDS = 70.0
#: The server holds an answer for so long.
PREFER_WAIT = {"prefer": "wait=20"}
#: An open that takes longer says by its operation what it waits for.
PREFER_SHORT_WAIT = {"prefer": "wait=2"}
#: After a repair (a new token, a woken workspace) a request is sent again at once, so many times. Then it waits like every other.
IMMEDIATE_REPEATS_MAX = 4

#: With these a gateway says that it did not execute the call.
_NEVER_EXECUTED = ("stale_epoch", "workspace_not_running", "workspace_busy", "service_unavailable")
#: A short wait changes nothing: somebody must make room, or the lock of the second factor must end.
_LASTING_REASONS = ("disk_full", "mfa_locked")
_RETRYABLE_STATUS = (429, 502, 503, 504)
_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    #: Raw, in the place of ``json``.
    body: bytes | None = None
    #: Sends an Idempotency-Key that stays the same over all repeats: one of its own, or this one.
    key: bool | str = False
    #: None: by method and key.
    repeats: Repeats | None = None
    #: Of one attempt, and of every silence in its answer.
    attempt_seconds: float = ATTEMPT_SECONDS

    def keyed(self) -> Request:
        if self.key is False:
            return self
        key = str(uuid.uuid4()) if self.key is True else self.key
        return replace(self, headers={**self.headers, "idempotency-key": key})

    def how_it_repeats(self) -> Repeats:
        return self.repeats or ("read" if self.method == "GET" else "once" if self.key is False else "keyed")


class Deadline:
    """The end of what a caller waits for."""

    def __init__(self, seconds: float) -> None:
        self._ends_at = time.monotonic() + seconds

    def left(self) -> float:
        return self._ends_at - time.monotonic()

    def check(self) -> None:
        if self.left() <= 0:
            raise DeadlineError

    def sooner(self, seconds: float) -> Deadline:
        return Deadline(min(seconds, self.left()))


def deadline_of(wait_seconds: float | None, otherwise: float = CALL_SECONDS) -> Deadline:
    return Deadline(otherwise if wait_seconds is None else wait_seconds)


def may_repeat(error: BerthError, repeats: Repeats) -> bool:
    """Whether the same request is sent again after this."""
    if isinstance(error, DeadlineError) or error.reason in _LASTING_REASONS:
        return False
    # A refusal has the words of a gateway; a proxy's has none, and may have passed the request on.
    if repeats == "once":
        return error.request_id is not None and error.code in _NEVER_EXECUTED
    # What was begun is found again by its key.
    if error.reason == "operation_interrupted":
        return repeats == "keyed"
    return isinstance(error, ConnectionFailedError) or error.retryable or error.status in _RETRYABLE_STATUS


def wait_before(attempt: int, retry_after_seconds: float | None) -> float:
    """How long to wait before the next attempt. At least what the server asks for."""
    most = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(attempt, 30))
    return max(retry_after_seconds or 0.0, most / 2 + random.random() * most / 2)


def given(**fields: Any) -> dict[str, Any]:
    """The fields that a caller gave."""
    return {name: value for name, value in fields.items() if value is not None}


def caps_of(
    caps: Mapping[str, Any] | None, cpu_millis: int | None, memory_mib: int | None, disk_gib: int | None
) -> dict[str, Any] | None:
    """A size may be given by itself: ``memory_mib=4096`` is ``caps={"memory_mib": 4096}``."""
    return {**(caps or {}), **given(cpu_millis=cpu_millis, memory_mib=memory_mib, disk_gib=disk_gib)} or None


def unheeded_notice(key: str, unheeded: Sequence[str], ceilings: Mapping[str, Any]) -> str:
    names = ("cpu_millis", "memory_mib", "disk_gib")
    sizes = f" (it has {', '.join(f'{name} {ceilings[name]}' for name in names)})" if "caps" in unheeded else ""
    return f"{key} does not have what this open asks for: {', '.join(unheeded)}{sizes}"


#: The account that commands run as by default lives here.
_HOME = "/home/user"


def guest_path(path: str) -> str:
    """The service takes absolute paths. ``~`` and relative paths are of the home directory, as in a shell that has just begun."""
    if path in ("~", "."):
        return _HOME
    if path == "" or path.startswith("/"):
        return path
    return f"{_HOME}/{path[2:] if path.startswith(('~/', './')) else path}"


def query_of(query: Mapping[str, Any]) -> dict[str, str]:
    def text(value: Any) -> str:
        return ("true" if value else "false") if isinstance(value, bool) else str(value)

    return {name: text(value) for name, value in query.items() if value is not None}


def if_match_of(version: int | None) -> dict[str, str]:
    return {} if version is None else {"if-match": str(version)}


def new_id() -> str:
    return f"sdk-{uuid.uuid4()}"

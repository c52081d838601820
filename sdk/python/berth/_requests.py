"""Requests, retry rules and deadlines, shared by both clients."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .errors import BerthError, ConnectionFailedError, DeadlineError

#: Effect of a repeated request. ``read``: none. ``keyed``: none, since the service recognises a key or id of the caller. ``once``: it
#: may make the change again.
Repeats = Literal["read", "keyed", "once"]

CALL_SECONDS = 120.0
#: Default wait for an operation.
OPERATION_SECONDS = 16 * 60.0
TRANSFER_SECONDS = 60 * 60.0
FOREVER_SECONDS = 365 * 86_400.0
#: A gateway may wake a machine first, and an api holds an answer for 20 seconds. A stream has a heartbeat every 15.
ATTEMPT_SECONDS = 70.0
#: Asks the server to hold an answer for up to 20 seconds.
PREFER_WAIT = {"prefer": "wait=20"}
#: A short wait: the operation of a longer open tells what it waits for.
PREFER_SHORT_WAIT = {"prefer": "wait=2"}
#: Immediate retries after a repair (a new token, a woken workspace). Later ones wait as usual.
IMMEDIATE_REPEATS_MAX = 4

#: Codes of a gateway that did not execute the call.
_NEVER_EXECUTED = ("stale_epoch", "workspace_not_running", "workspace_busy", "service_unavailable")
#: Reasons that a short wait does not remove: a full disk, or a locked second factor.
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
    #: Raw body, instead of ``json``.
    body: bytes | None = None
    #: Sends an Idempotency-Key, the same for all retries: a generated one (True), or this one.
    key: bool | str = False
    #: None: by method and key.
    repeats: Repeats | None = None
    #: Time limit of one attempt, and of every silence in its answer.
    attempt_seconds: float = ATTEMPT_SECONDS

    def keyed(self) -> Request:
        if self.key is False:
            return self
        key = str(uuid.uuid4()) if self.key is True else self.key
        return replace(self, headers={**self.headers, "idempotency-key": key})

    def how_it_repeats(self) -> Repeats:
        return self.repeats or ("read" if self.method == "GET" else "once" if self.key is False else "keyed")


class Deadline:
    """End of a caller's wait."""

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
    """Returns whether the same request may be sent again after this error."""
    if isinstance(error, DeadlineError) or error.reason in _LASTING_REASONS:
        return False
    # A proxy's refusal has no request id, and the proxy may have passed the request on.
    if repeats == "once":
        return error.request_id is not None and error.code in _NEVER_EXECUTED
    # The key finds the interrupted operation again.
    if error.reason == "operation_interrupted":
        return repeats == "keyed"
    return isinstance(error, ConnectionFailedError) or error.retryable or error.status in _RETRYABLE_STATUS


def wait_before(attempt: int, retry_after_seconds: float | None) -> float:
    """Returns the delay before the next attempt, in seconds; at least the server's Retry-After."""
    most = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(attempt, 30))
    return max(retry_after_seconds or 0.0, most / 2 + random.random() * most / 2)


def given(**fields: Any) -> dict[str, Any]:
    """Returns the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def caps_of(
    caps: Mapping[str, Any] | None, cpu_millis: int | None, memory_mib: int | None, disk_gib: int | None
) -> dict[str, Any] | None:
    """Merges sizes into ``caps``: ``memory_mib=4096`` means ``caps={"memory_mib": 4096}``."""
    return {**(caps or {}), **given(cpu_millis=cpu_millis, memory_mib=memory_mib, disk_gib=disk_gib)} or None


def unheeded_notice(key: str, unheeded: Sequence[str], ceilings: Mapping[str, Any]) -> str:
    names = ("cpu_millis", "memory_mib", "disk_gib")
    sizes = f" (it has {', '.join(f'{name} {ceilings[name]}' for name in names)})" if "caps" in unheeded else ""
    return f"{key} does not have what this open asks for: {', '.join(unheeded)}{sizes}"


#: Home of the default user of commands.
_HOME = "/home/user"


def guest_path(path: str) -> str:
    """Makes a path absolute, as the service requires: ``~`` and relative paths resolve against the home directory."""
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

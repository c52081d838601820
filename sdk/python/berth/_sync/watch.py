# Made by tools/sync.py from berth/_async/watch.py. Do not change it by hand.
"""Watches of directories."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from .._requests import FOREVER_SECONDS, IMMEDIATE_REPEATS_MAX, Request, deadline_of, may_repeat, wait_before
from ..errors import BerthError, ConnectionFailedError, DeadlineError, error_of
from . import platform
from .events import events_of
from .gateway import Gateway


def watched(
    gateway: Gateway, path: str, recursive: bool | None, wait_seconds: float | None
) -> Generator[Mapping[str, Any], None]:
    """Watches across lost connections, suspends and resumes, until the directory is gone."""
    deadline = deadline_of(wait_seconds, FOREVER_SECONDS)
    at: dict[str, Any] = {}
    attempt = 0
    while True:
        try:
            asked = Request("GET", "/files/watch", query={"path": path, "recursive": recursive, **at})
            with closing(events_of(gateway, asked, deadline)) as events:
                for event in events:
                    kind = event["type"]
                    if kind == "error":
                        raise error_of(event["error"])
                    if kind == "end":
                        return
                    if kind == "heartbeat":
                        continue
                    at["offset"] = event["offset"]
                    if kind == "start":
                        is_first = "watch_id" not in at
                        at["watch_id"] = event["watch_id"]
                        if event["missed"]:
                            yield {"type": "missed", "why": "events"}
                        elif is_first:
                            yield {"type": "start"}
                        continue
                    attempt = 0
                    if kind == "overflow":
                        yield {"type": "missed", "why": event["why"]}
                    else:
                        yield {name: event[name] for name in ("type", "path", "change", "is_directory")}
            raise ConnectionFailedError("The stream broke off")
        except BerthError as error:
            if isinstance(error, DeadlineError):
                raise
            is_repaired = gateway.repair(error, deadline)
            if not (is_repaired and attempt < IMMEDIATE_REPEATS_MAX):
                if not is_repaired and not may_repeat(error, "read"):
                    raise
                deadline.check()
                platform.sleep(min(wait_before(attempt, error.retry_after_seconds), max(deadline.left(), 0)))
        attempt += 1

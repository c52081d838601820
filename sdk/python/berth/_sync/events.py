# Made by tools/sync.py from berth/_async/events.py. Do not change it by hand.
"""Event streams, one event per line."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

import httpx

from .._requests import Deadline, Request
from ..errors import ConnectionFailedError
from .gateway import Gateway


def events_of(gateway: Gateway, request: Request, deadline: Deadline) -> Generator[Mapping[str, Any], None]:
    """Yields the events of one answer. Raises a ConnectionFailedError where it breaks off."""
    response = gateway.begin(request, deadline)
    rest: list[bytes] = []
    try:
        for piece in response.iter_raw():
            *lines, last = piece.split(b"\n")
            for line in lines:
                deadline.check()
                yield json.loads(b"".join([*rest, line]))
                rest = []
            # An incomplete last line waits for more; it is dropped where the stream breaks off.
            rest.append(last)
    except httpx.TransportError as cause:
        deadline.check()
        raise ConnectionFailedError("The stream broke off") from cause
    finally:
        response.close()

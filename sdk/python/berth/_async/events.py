"""Event streams, one event per line."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import httpx

from .._requests import Deadline, Request
from ..errors import ConnectionFailedError
from .gateway import AsyncGateway


async def events_of(gateway: AsyncGateway, request: Request, deadline: Deadline) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yields the events of one answer. Raises a ConnectionFailedError where it breaks off."""
    response = await gateway.begin(request, deadline)
    rest: list[bytes] = []
    try:
        async for piece in response.aiter_raw():
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
        await response.aclose()

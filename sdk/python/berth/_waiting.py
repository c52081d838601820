"""Notices that explain long calls, once for each wait. Shared by both clients."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Python prints warnings to standard error where a program has not set up logging.
LOG = logging.getLogger("berth")

#: Wait for a service that never answered this client: its address is probably wrong.
FIRST_CONTACT_SECONDS = 5.0
_TELL_AFTER_SECONDS = 2.0


@dataclass
class Contact:
    """State of the connection to the service."""

    #: True if the service has answered this client before. If so, a lost connection is likely a restart, worth a long wait.
    is_made: bool = False


class Wait:
    """One call with its retries."""

    def __init__(self, began_before: bool = False) -> None:
        # The request that started the operation has already waited for that long.
        self._began_at = time.monotonic() - (_TELL_AFTER_SECONDS if began_before else 0.0)
        self._is_told = False

    def seconds(self) -> float:
        return time.monotonic() - self._began_at

    def because(self, text: str | None) -> None:
        """Sets the present reason; None: none worth a notice."""
        if text is None or self._is_told or self.seconds() < _TELL_AFTER_SECONDS:
            return
        self._is_told = True
        LOG.warning("%s", text)


def capacity_notice(operation: Mapping[str, Any]) -> str | None:
    """Names the scarce resource, where the operation reports it."""
    if operation["state"] != "capacity_pending":
        return None
    details = (operation.get("error") or {}).get("details") or {}
    short, until = details.get("short"), details.get("deadline_at")
    resource = f": {' and '.join(short)} is short" if isinstance(short, list) and short else ""
    return f"Waiting for capacity{resource}{f', until {until} at the latest' if until else ''}"

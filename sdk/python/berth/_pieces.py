"""Pieces of standard input that wait to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(eq=False)
class Piece:
    data: bytes
    #: Standard input closes after this piece.
    close: bool
    wait_seconds: float | None
    is_done: bool = False
    error: BaseException | None = None


def count_together(waiting: Sequence[Piece], bytes_max: int) -> int:
    """Counts the pieces for one request: with the same wait, and a close only as the last."""
    first = waiting[0]
    if first.close or first.wait_seconds is not None:
        return 1
    size, count = len(first.data), 1
    for piece in waiting[1:]:
        size += len(piece.data)
        if piece.wait_seconds is not None or size > bytes_max:
            break
        count += 1
        if piece.close:
            break
    return count

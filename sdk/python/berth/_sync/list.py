# Made by tools/sync.py from berth/_async/list.py. Do not change it by hand.
"""Lists of the API."""

from __future__ import annotations

from collections.abc import Iterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._requests import Request

T = TypeVar("T")

if TYPE_CHECKING:
    from typing import TypedDict

    # Python 3.10 cannot create a generic TypedDict.
    class Page(TypedDict, Generic[T]):
        data: list[T]
        next_cursor: str | None


class List(Generic[T]):
    """A list of the API. Iterating reads one page after another."""

    def __init__(self, page: Callable[[Mapping[str, Any]], Any], query: Mapping[str, Any] | None = None) -> None:
        self._page = page
        self._query = query or {}

    def page(self, cursor: str | None = None) -> Page[T]:
        """Reads one page, ``data`` and ``next_cursor``: the first, or the one at a cursor."""
        answer: Page[T] = self._page({**self._query, "cursor": cursor})
        return answer

    def __iter__(self) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self.page(cursor)
            for item in page["data"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def __len__(self) -> int:
        raise TypeError("A list of the API is read page after page and has no len() before: take that of what all() returns")

    def all(self) -> list[T]:
        return [item for item in self]


def list_of(
    call: Callable[[Request, float | None], Any],
    path: str | Callable[[], str],
    query: Mapping[str, Any] | None = None,
    wait_seconds: float | None = None,
) -> List[Any]:
    """``path``: a function where a request must first find the project or organization."""

    def page(asked: Mapping[str, Any]) -> Any:
        place = path if isinstance(path, str) else path()
        return call(Request("GET", place, query=asked), wait_seconds)

    return List(page, query)

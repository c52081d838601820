"""Lists of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._requests import Request

T = TypeVar("T")

if TYPE_CHECKING:
    from typing import TypedDict

    # Python 3.10 cannot create a generic TypedDict.
    class Page(TypedDict, Generic[T]):
        data: list[T]
        next_cursor: str | None


class AsyncList(Generic[T]):
    """A list of the API. Iterating reads one page after another."""

    def __init__(self, page: Callable[[Mapping[str, Any]], Awaitable[Any]], query: Mapping[str, Any] | None = None) -> None:
        self._page = page
        self._query = query or {}

    async def page(self, cursor: str | None = None) -> Page[T]:
        """Reads one page, ``data`` and ``next_cursor``: the first, or the one at a cursor."""
        answer: Page[T] = await self._page({**self._query, "cursor": cursor})
        return answer

    async def __aiter__(self) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self.page(cursor)
            for item in page["data"]:
                yield item
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def __len__(self) -> int:
        raise TypeError("A list of the API is read page after page and has no len() before: take that of what all() returns")

    async def all(self) -> list[T]:
        return [item async for item in self]


def list_of(
    call: Callable[[Request, float | None], Awaitable[Any]],
    path: str | Callable[[], Awaitable[str]],
    query: Mapping[str, Any] | None = None,
    wait_seconds: float | None = None,
) -> AsyncList[Any]:
    """``path``: a function where a request must first find the project or organization."""

    async def page(asked: Mapping[str, Any]) -> Any:
        place = path if isinstance(path, str) else await path()
        return await call(Request("GET", place, query=asked), wait_seconds)

    return AsyncList(page, query)

"""Records which methods of either client are called."""

from __future__ import annotations

import inspect
import uuid
from typing import Any
from urllib.parse import urlsplit

from berth import BerthError

#: Methods that Python syntax calls, by their names in the client for threads.
_WORDS = {"__iter__": "__iter__", "__aiter__": "__iter__", "__exit__": "__exit__", "__aexit__": "__exit__"}
_KINDS = {"Berth": "berth", "Workspace": "ws", "Command": "command", "Terminal": "terminal", "List": "list"}


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:12]}"


def same(seen: Any, expected: Any) -> None:
    assert seen == expected, f"{seen!r} is not {expected!r}"


class Seen:
    """Methods by their names: ``berth.secrets.list``."""

    def __init__(self) -> None:
        #: Methods that the service answered.
        self.called: set[str] = set()
        #: All methods of the recorded objects.
        self.there: set[str] = set()
        #: Requests: their methods and paths.
        self.requests: set[str] = set()

    def requests_of(self, berth: Any) -> None:
        """Records the requests of this client."""
        client = berth._app.client
        build = client.build_request

        def built(method: str, url: str, **request: Any) -> Any:
            self.requests.add(f"{method} {urlsplit(url).path}")
            return build(method, url, **request)

        client.build_request = built

    def connections_of(self, platform: Any) -> None:
        """Records the connections of this client's terminals."""
        connect = platform.connect

        def connected(url: str, *rest: Any) -> Any:
            self.requests.add(f"GET {urlsplit(url).path}")
            return connect(url, *rest)

        platform.connect = connected


def methods_of(target: Any, name: str) -> set[str]:
    found: set[str] = set()
    for each in {*dir(type(target)), *vars(target)}:
        if each in _WORDS:
            found.add(f"{name}.{_WORDS[each]}")
        elif not each.startswith("_") and not isinstance(getattr(type(target), each, None), property):
            value = getattr(target, each)
            if callable(value):
                found.add(f"{name}.{each}")
            elif _is_namespace(value):
                found |= methods_of(value, f"{name}.{each}")
    return found


def _is_namespace(value: Any) -> bool:
    return type(value).__module__.startswith(("berth._async", "berth._sync"))


class Recorded:
    """Wraps an object: records calls on it and on its results, once the service has answered."""

    def __init__(self, target: Any, name: str, seen: Seen) -> None:
        self._target, self._name, self._seen = target, name, seen
        seen.there |= methods_of(target, name) if name in _KINDS.values() else set()

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(self._target, attribute)
        at = f"{self._name}.{attribute}"
        if not callable(value):
            return Recorded(value, at, self._seen) if _is_namespace(value) else value

        def call(*args: Any, **fields: Any) -> Any:
            try:
                result = value(*args, **fields)
            except BerthError as error:
                self._refused(at, error)
                raise
            if inspect.isawaitable(result):
                return self._awaited(at, result)
            return self._outcome(at, result)

        return call

    async def _awaited(self, at: str, result: Any) -> Any:
        try:
            return self._outcome(at, await result)
        except BerthError as error:
            self._refused(at, error)
            raise

    def _outcome(self, at: str, value: Any) -> Any:
        self._seen.called.add(at)
        kind = _KINDS.get(type(value).__name__.removeprefix("Async")) if _is_namespace(value) else None
        return value if kind is None else Recorded(value, kind, self._seen)

    def _refused(self, at: str, error: BerthError) -> None:
        if error.status > 0:
            self._seen.called.add(at)

    def _word(self, word: str) -> None:
        self._seen.called.add(f"{self._name}.{word}")

    def __iter__(self) -> Any:
        self._word("__iter__")
        return iter(self._target)

    def __aiter__(self) -> Any:
        self._word("__iter__")
        return self._target.__aiter__()

    def __enter__(self) -> Any:
        self._target.__enter__()
        return self

    def __exit__(self, *why: Any) -> Any:
        self._word("__exit__")
        return self._target.__exit__(*why)

    async def __aenter__(self) -> Any:
        await self._target.__aenter__()
        return self

    async def __aexit__(self, *why: Any) -> Any:
        self._word("__exit__")
        return await self._target.__aexit__(*why)

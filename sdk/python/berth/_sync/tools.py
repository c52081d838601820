# Made by tools/sync.py from berth/_async/tools.py. Do not change it by hand.
"""Git, browser, processes, changes, trees and idleness of a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._requests import Request, deadline_of, given, guest_path, if_match_of
from .gateway import Gateway
from .list import List, list_of

if TYPE_CHECKING:
    from .. import types

#: Wait for calls that may take minutes.
_LONG_SECONDS = 11 * 60.0


class Git:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def clone(
        self,
        url: str,
        path: str,
        *,
        branch: str | None = None,
        depth: int | None = None,
        authorization_secret: str | None = None,
        timeout_ms: int | None = None,
        wait_seconds: float = _LONG_SECONDS,
    ) -> types.GitHead:
        """Clones a repository. Does not retry after a lost answer: the path may then exist.

        ``authorization_secret``: name of a secret with the value of the Authorization header. Its ``allowed_tools`` must include
        ``git``.
        """
        json = given(url=url, path=guest_path(path), branch=branch, depth=depth, authorization_secret=authorization_secret, timeout_ms=timeout_ms)
        asked = Request("POST", "/git/clone", json=json, attempt_seconds=_LONG_SECONDS)
        head: types.GitHead = self._gateway.call(asked, wait_seconds)
        return head

    def status(self, path: str, *, wait_seconds: float | None = None) -> types.GitStatus:
        status: types.GitStatus = self._gateway.call(Request("GET", "/git/status", query={"path": guest_path(path)}), wait_seconds)
        return status

    def commit(
        self,
        path: str,
        message: str,
        *,
        paths: Sequence[str] | None = None,
        author: Mapping[str, str] | None = None,
        wait_seconds: float | None = None,
    ) -> types.GitCommitted:
        asked = Request("POST", "/git/commit", json=given(path=guest_path(path), message=message, paths=paths, author=author))
        committed: types.GitCommitted = self._gateway.call(asked, wait_seconds)
        return committed


class Browser:
    """The browser of a workspace. ``fields``: ``viewport``, ``wait_until``, ``wait_ms``, ``timeout_ms`` as the routes take them."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def screenshot(self, url: str, *, wait_seconds: float | None = None, **fields: Any) -> bytes:
        """Returns a PNG. ``full_page=True``: of the whole page."""
        asked = _visit("/browser/screenshot", {"url": url, **fields})
        return (self._gateway.send(asked, deadline_of(wait_seconds))).content

    def content(self, url: str, *, wait_seconds: float | None = None, **fields: Any) -> str:
        """Returns the page as rendered: ``format`` is ``html`` or ``text``."""
        asked = _visit("/browser/content", {"url": url, **fields})
        return (self._gateway.send(asked, deadline_of(wait_seconds))).text


def _visit(path: str, json: Mapping[str, Any]) -> Request:
    return Request("POST", path, json=json, repeats="read", attempt_seconds=_LONG_SECONDS)


class Processes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def list(self, *, limit: int | None = None, wait_seconds: float | None = None) -> types.ProcessList:
        found: types.ProcessList = self._gateway.call(Request("GET", "/processes", query={"limit": limit}), wait_seconds)
        return found

    def signal(self, pid: int, signal: str, *, wait_seconds: float | None = None) -> None:
        self._gateway.call(Request("POST", f"/processes/{pid}/signal", json={"signal": signal}), wait_seconds)


class Idle:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def get(self, *, wait_seconds: float | None = None) -> types.IdleRecord:
        record: types.IdleRecord = self._gateway.call(Request("GET", "/idle"), wait_seconds)
        return record

    def keepalive(self, seconds: int, *, wait_seconds: float | None = None) -> types.KeepaliveAnswer:
        asked = Request("POST", "/keepalive", json={"seconds": seconds}, repeats="keyed")
        until: types.KeepaliveAnswer = self._gateway.call(asked, wait_seconds)
        return until

    def wake_hint(self, *, wait_seconds: float | None = None) -> types.WakeHint:
        asked = Request("POST", "/wake-hint", json={}, repeats="keyed")
        residency: types.WakeHint = self._gateway.call(asked, wait_seconds)
        return residency


class Changes:
    """Changes against the template."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def list(
        self, *, path_prefix: str | None = None, hash: bool | None = None, wait_seconds: float | None = None
    ) -> List[types.Change]:
        return list_of(self._gateway.call, "/changes", {"path_prefix": path_prefix, "hash": hash}, wait_seconds)

    def summary(
        self, *, path_prefix: str | None = None, hash: bool | None = None, wait_seconds: float | None = None
    ) -> types.ChangesSummary:
        query = {"path_prefix": path_prefix, "hash": hash, "summary": True}
        summary: types.ChangesSummary = (self._gateway.call(Request("GET", "/changes", query=query), wait_seconds))["summary"]
        return summary


class Tree:
    """The history of a file-first workspace."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def revisions(self, *, wait_seconds: float | None = None) -> List[types.TreeRevision]:
        return list_of(self._gateway.call, "/tree/revisions", None, wait_seconds)

    def diff(
        self, from_revision: int, to_revision: int | None = None, *, path_prefix: str | None = None, wait_seconds: float | None = None
    ) -> List[types.Change]:
        query = {"from": from_revision, "to": to_revision, "path_prefix": path_prefix}
        return list_of(self._gateway.call, "/tree/diff", query, wait_seconds)

    def restore(
        self, tree_revision: int, *, if_match: int | None = None, wait_seconds: float | None = None
    ) -> types.TreeRestored:
        asked = Request("POST", "/tree/restore", json={"tree_revision": tree_revision}, headers=if_match_of(if_match))
        restored: types.TreeRestored = self._gateway.call(asked, wait_seconds)
        return restored

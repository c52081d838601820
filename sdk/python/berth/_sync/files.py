# Made by tools/sync.py from berth/_async/files.py. Do not change it by hand.
"""Files. Relative paths and ``~`` resolve against ``/home/user``.

Reads of a suspended workspace are served from its disk, without waking it.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx

from .._requests import TRANSFER_SECONDS, Deadline, Request, deadline_of, given, guest_path, if_match_of, wait_before
from ..errors import ConnectionFailedError, NotFoundError
from . import platform
from .gateway import Gateway
from .watch import watched

if TYPE_CHECKING:
    from .. import types

#: Size limit of one request. Larger content goes in pieces into a temporary file, which then replaces the target.
_PIECE_BYTES = 7 << 20


class Files:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def read(
        self,
        path: str,
        *,
        offset: int | None = None,
        length: int | None = None,
        tree_revision: int | None = None,
        wait_seconds: float | None = None,
    ) -> bytes:
        """Reads a file, or ``length`` bytes from ``offset`` on. Raises ``not_found``, ``path_not_found`` where there is none."""
        query = {"path": guest_path(path), "offset": offset, "length": length, "tree_revision": tree_revision}
        response = self._gateway.send(Request("GET", "/files", query=query), deadline_of(wait_seconds))
        return response.content

    def read_text(self, path: str, *, tree_revision: int | None = None, wait_seconds: float | None = None) -> str:
        """Reads a file as UTF-8 text."""
        content = self.read(path, tree_revision=tree_revision, wait_seconds=wait_seconds)
        return content.decode(errors="replace")

    def stream(
        self, path: str, *, offset: int = 0, tree_revision: int | None = None, wait_seconds: float | None = None
    ) -> Iterator[bytes]:
        """Reads in pieces, and resumes after a lost connection. Raises a ValueError when the file changes during the read."""
        deadline = deadline_of(wait_seconds, TRANSFER_SECONDS)
        at, attempt = offset, 0
        seen: tuple[str | None, str | None] | None = None
        while True:
            query = {"path": guest_path(path), "offset": at, "tree_revision": tree_revision}
            response = self._gateway.begin(Request("GET", "/files", query=query), deadline)
            try:
                version = response.headers.get("x-file-size"), response.headers.get("x-file-revision")
                if seen is not None and seen != version:
                    raise ValueError(f"{path} changed while it was read")
                seen = version
                for piece in response.iter_raw():
                    deadline.check()
                    at += len(piece)
                    attempt = 0
                    yield piece
                return
            except httpx.TransportError as cause:
                if not _waited(attempt, deadline):
                    raise ConnectionFailedError("The file broke off") from cause
            finally:
                response.close()
            attempt += 1

    def write(
        self,
        path: str,
        content: str | bytes,
        *,
        mode: str | None = None,
        create_parents: bool = True,
        append: bool | None = None,
        if_match: int | None = None,
        wait_seconds: float | None = None,
    ) -> types.WriteResult:
        """Writes a file of any size atomically; it is durable on return. A large append is not atomic: its pieces are visible."""
        whole = memoryview(content.encode() if isinstance(content, str) else content)
        query = {"path": guest_path(path), "mode": mode, "create_parents": create_parents, "append": append}
        if len(whole) <= _PIECE_BYTES:
            return self._put(query, bytes(whole), if_match, deadline_of(wait_seconds))
        deadline = deadline_of(wait_seconds, TRANSFER_SECONDS)
        path = guest_path(path)
        beside = path if append else f"{path}.berth-{uuid.uuid4().hex[:8]}"
        result: types.WriteResult = self._put({**query, "path": beside}, bytes(whole[:_PIECE_BYTES]), if_match, deadline)
        for at in range(_PIECE_BYTES, len(whole), _PIECE_BYTES):
            piece = bytes(whole[at : at + _PIECE_BYTES])
            result = self._put({"path": beside, "append": True}, piece, None, deadline)
        result = {**result, "bytes_written": len(whole)}
        if append:
            return result
        self.move(beside, path, overwrite=True, wait_seconds=deadline.left())
        return {**result, "path": path, "sha256": result.get("revision") or result["sha256"]}

    def remove(
        self, path: str, *, recursive: bool | None = None, if_match: int | None = None, wait_seconds: float | None = None
    ) -> None:
        """Removes a file or an empty directory; with ``recursive`` a directory and its content, else ``conflict``, ``not_empty``."""
        asked = Request("DELETE", "/files", query={"path": guest_path(path), "recursive": recursive})
        self._change(asked, if_match, wait_seconds)

    def stat(
        self, path: str, *, revision: bool | None = None, tree_revision: int | None = None, wait_seconds: float | None = None
    ) -> types.FileInfo:
        """Returns type, size in bytes, mode and time. With ``revision=True`` also the SHA-256 of a file, for ``patch``."""
        query = {"path": guest_path(path), "revision": revision, "tree_revision": tree_revision}
        info: types.FileInfo = self._gateway.call(Request("GET", "/files/stat", query=query), wait_seconds)
        return info

    def exists(self, path: str, *, tree_revision: int | None = None, wait_seconds: float | None = None) -> bool:
        """Returns whether the path exists."""
        try:
            self.stat(path, tree_revision=tree_revision, wait_seconds=wait_seconds)
            return True
        except NotFoundError as error:
            if error.reason == "path_not_found":
                return False
            raise

    def list(
        self, path: str, *, limit: int | None = None, tree_revision: int | None = None, wait_seconds: float | None = None
    ) -> types.FileList:
        """Lists a directory by name: ``entries``, and ``truncated`` where there are more than ``limit``."""
        query = {"path": guest_path(path), "limit": limit, "tree_revision": tree_revision}
        found: types.FileList = self._gateway.call(Request("GET", "/files/list", query=query), wait_seconds)
        return found

    def mkdir(
        self,
        path: str,
        *,
        parents: bool = True,
        mode: str | None = None,
        if_match: int | None = None,
        wait_seconds: float | None = None,
    ) -> types.FileInfo:
        """Creates a directory and its parents. ``parents=False``: only the directory, ``conflict`` where it exists. ``mode`` is octal."""
        asked = Request("POST", "/files/mkdir", json=given(path=guest_path(path), parents=parents, mode=mode))
        info: types.FileInfo = self._change(asked, if_match, wait_seconds)
        return info

    def move(
        self,
        source: str,
        target: str,
        *,
        overwrite: bool | None = None,
        if_match: int | None = None,
        wait_seconds: float | None = None,
    ) -> types.FileInfo:
        """Moves or renames within the workspace. ``overwrite`` replaces the target, else ``conflict``, ``already_exists``."""
        asked = Request("POST", "/files/move", json={"from": guest_path(source), "to": guest_path(target), **given(overwrite=overwrite)})
        info: types.FileInfo = self._change(asked, if_match, wait_seconds)
        return info

    def search(self, path: str, pattern: str, *, wait_seconds: float | None = None, **fields: Any) -> types.SearchResult:
        """Searches files below a path for matching lines. ``pattern`` is literal text, or an RE2 expression with ``regex=True``.

        ``fields``: ``regex``, ``include``, ``context_lines`` and the others of the route.
        """
        asked = Request("POST", "/files/search", json={"path": guest_path(path), "pattern": pattern, **fields}, repeats="read")
        found: types.SearchResult = self._gateway.call(asked, wait_seconds)
        return found

    def patch(
        self,
        path: str,
        *,
        edits: Sequence[Mapping[str, Any]] | None = None,
        content: str | None = None,
        expected_revision: str | None = None,
        if_match: int | None = None,
        wait_seconds: float | None = None,
    ) -> types.PatchResult:
        """Changes a text file atomically, by ``edits`` or the whole ``content``.

        Raises ``conflict``, ``revision_mismatch`` unless the file has ``expected_revision`` (a SHA-256, or ``absent``).
        """
        json = given(path=guest_path(path), edits=edits, content=content, expected_revision=expected_revision)
        result: types.PatchResult = self._change(Request("POST", "/files/patch", json=json, key=True), if_match, wait_seconds)
        return result

    def watch(
        self, path: str, *, recursive: bool | None = None, wait_seconds: float | None = None
    ) -> Generator[Mapping[str, Any], None]:
        """Yields changes in a directory as they happen, across lost connections; ends when the directory is gone.

        Events: ``{"type": "start"}`` once watching has begun; ``change`` with ``path``, ``change`` and ``is_directory``; ``missed``,
        after which the caller must read the directory again. ``why`` is ``directories`` where it has more subdirectories than can be
        watched.
        """
        return watched(self._gateway, guest_path(path), recursive, wait_seconds)

    def read_tar(
        self, path: str, *, tree_revision: int | None = None, sparse: bool | None = None, wait_seconds: float | None = None
    ) -> Iterator[bytes]:
        """Streams a directory as a tar, in pieces. Raises where it breaks off, without a retry.

        Sparse files use the GNU format, which ``tarfile`` reads; ``sparse=False`` is for programs that do not support it.
        """
        deadline = deadline_of(wait_seconds, TRANSFER_SECONDS)
        query = {"path": guest_path(path), "tree_revision": tree_revision, "sparse": sparse}
        response = self._gateway.begin(Request("GET", "/files/tar", query=query), deadline)
        try:
            for piece in response.iter_raw():
                deadline.check()
                yield piece
        except httpx.TransportError as cause:
            raise ConnectionFailedError("The tar broke off") from cause
        finally:
            response.close()

    def write_tar(
        self,
        path: str,
        tar: bytes,
        *,
        create_parents: bool = True,
        links_out: bool | None = None,
        if_match: int | None = None,
        wait_seconds: float | None = None,
    ) -> types.TarResult:
        """Unpacks a tar below a directory; files not in the tar stay. It is durable on return."""
        query = {"path": guest_path(path), "create_parents": create_parents, "links_out": links_out}
        asked = Request("PUT", "/files/tar", query=query, body=tar, attempt_seconds=TRANSFER_SECONDS)
        asked = replace(asked, headers={"content-type": "application/x-tar"})
        wait = TRANSFER_SECONDS if wait_seconds is None else wait_seconds
        result: types.TarResult = self._change(asked, if_match, wait)
        return result

    def _put(
        self, query: Mapping[str, Any], body: bytes, if_match: int | None, deadline: Deadline
    ) -> types.WriteResult:
        asked = Request("PUT", "/files", query=query, body=body, key=True, headers={"content-type": "application/octet-stream"})
        result: types.WriteResult = self._change(asked, if_match, max(deadline.left(), 0))
        return result

    def _change(self, asked: Request, if_match: int | None, wait_seconds: float | None) -> Any:
        headers = {**asked.headers, **if_match_of(if_match)}
        return self._gateway.call(replace(asked, headers=headers), wait_seconds)


def _waited(attempt: int, deadline: Deadline) -> bool:
    """Waits before a reconnect; False where the caller's time would be over first."""
    wait = wait_before(attempt, None)
    if wait > deadline.left():
        return False
    platform.sleep(wait)
    return True

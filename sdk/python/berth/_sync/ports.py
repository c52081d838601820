# Made by tools/sync.py from berth/_async/ports.py. Do not change it by hand.
"""Private URLs of a workspace's ports, which require a credential created here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._requests import Request, given
from .app import App
from .list import List, list_of

if TYPE_CHECKING:
    from .. import types


class Ports:
    def __init__(self, app: App, workspace_id: str) -> None:
        self._app = app
        self._all = f"/v1/workspaces/{workspace_id}/ports"

    def list(self, *, wait_seconds: float | None = None) -> List[types.Port]:
        return list_of(self._app.call, self._all, None, wait_seconds)

    def get(self, port: int, *, wait_seconds: float | None = None) -> types.Port:
        found: types.Port = self._app.call(Request("GET", f"{self._all}/{port}"), wait_seconds)
        return found

    def expose(self, port: int, *, wait_seconds: float | None = None) -> types.Port:
        """Exposes a port. A repeated call has no further effect."""
        asked = Request("PUT", f"{self._all}/{port}", repeats="keyed")
        exposed: types.Port = self._app.call(asked, wait_seconds)
        return exposed

    def close(self, port: int, *, wait_seconds: float | None = None) -> None:
        self._app.call(Request("DELETE", f"{self._all}/{port}"), wait_seconds)

    def token(self, port: int, *, ttl_seconds: int | None = None, wait_seconds: float | None = None) -> types.PortToken:
        asked = Request("POST", f"{self._all}/{port}/tokens", json=given(ttl_seconds=ttl_seconds))
        token: types.PortToken = self._app.call(asked, wait_seconds)
        return token

    def link(
        self, port: int, *, path: str | None = None, ttl_seconds: int | None = None, wait_seconds: float | None = None
    ) -> types.PortLink:
        asked = Request("POST", f"{self._all}/{port}/links", json=given(path=path, ttl_seconds=ttl_seconds))
        link: types.PortLink = self._app.call(asked, wait_seconds)
        return link

    def callback(self, port: int, *, wait_seconds: float | None = None) -> types.PortCallback:
        """Creates the callback URL, shown only once, and replaces the one before."""
        made: types.PortCallback = self._app.call(Request("POST", f"{self._all}/{port}/callback"), wait_seconds)
        return made

    def revoke_callback(self, port: int, *, wait_seconds: float | None = None) -> None:
        self._app.call(Request("DELETE", f"{self._all}/{port}/callback"), wait_seconds)

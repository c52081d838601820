# Made by tools/sync.py from berth/_async/gateway.py. Do not change it by hand.
"""Calls to the tools of one workspace. Finds the gateway, and keeps its token valid across suspends, moves and restarts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import httpx

from .._requests import OPERATION_SECONDS, PREFER_WAIT, Deadline, Request, deadline_of
from ..errors import BerthError
from . import platform
from .app import App
from .transport import Repair, begin, json_of, send

if TYPE_CHECKING:
    from .. import types

#: A token is renewed this long before it expires.
_EARLY_SECONDS = 60.0
_RENEW_SECONDS = 60.0


@dataclass
class Manner:
    """Options of the open, reused when the workspace is opened again."""

    open: Mapping[str, Any] | None = None
    #: Body of token requests.
    grant: Mapping[str, Any] | None = None
    #: True if a call on a suspended workspace resumes it.
    wake: bool = True


class Gateway:
    def __init__(self, app: App, view: types.Workspace, manner: Manner, token: Mapping[str, Any] | None) -> None:
        self.app = app
        self.id: str = view["id"]
        #: The view as last read.
        self.view = view
        self.manner = manner
        self._grant = dict(manner.grant or {})
        self._place: tuple[str, str] | None = None
        self._good_until = 0.0
        if token is not None:
            self._keep(token)
        self._renewed = platform.Shared(self._renew, _RENEW_SECONDS)
        self._resumed = platform.Shared(self._resume, OPERATION_SECONDS)

    def call(self, request: Request, wait_seconds: float | None = None) -> Any:
        return json_of(self.send(request, deadline_of(wait_seconds)))

    def send(self, request: Request, deadline: Deadline) -> httpx.Response:
        return send(self.app.client, self._below(request), deadline, self.target, self._repair_of_one(), self.app.contact)

    def begin(self, request: Request, deadline: Deadline) -> httpx.Response:
        """Sends without reading the body. The caller must close the answer."""
        return begin(self.app.client, self._below(request), deadline, self.target, self._repair_of_one(), self.app.contact)

    def target(self, deadline: Deadline) -> tuple[str, str]:
        """Returns the current address and token."""
        if self._place is None or time.monotonic() > self._good_until:
            self.renewed(deadline)
        assert self._place is not None
        return self._place

    def repair(self, error: BerthError, deadline: Deadline) -> bool:
        """Tries to remove the cause of a refusal: renews the token, waits for an operation, or wakes the workspace."""
        if error.code == "stale_epoch" or error.reason == "stale_endpoint":
            self.renewed(deadline)
            return True
        if error.code == "workspace_busy" and error.operation_id is not None:
            self.app.ended(error.operation_id, deadline)
            return True
        if error.code != "workspace_not_running":
            return False
        if not self.manner.wake:
            raise error
        self.wake(deadline)
        return True

    def renewed(self, deadline: Deadline) -> None:
        """Requests a new token."""
        self._renewed.done(deadline)

    def wake(self, deadline: Deadline) -> None:
        """Resumes the workspace where it is suspended."""
        self._resumed.done(deadline)

    def refresh(self, wait_seconds: float | None = None) -> types.Workspace:
        """Reads the view again."""
        self.view = self.app.call(Request("GET", f"/v1/workspaces/{self.id}"), wait_seconds)
        return self.view

    def _below(self, request: Request) -> Request:
        return replace(request, path=f"/v1/workspaces/{self.id}{request.path}")

    def _repair_of_one(self) -> Repair:
        has_new_token = False

        def repair(error: BerthError, deadline: Deadline) -> bool:
            nonlocal has_new_token
            if error.code != "unauthenticated":
                return self.repair(error, deadline)
            if has_new_token:
                return False
            has_new_token = True
            self.renewed(deadline)
            return True

        return repair

    def _renew(self, deadline: Deadline) -> None:
        path = f"/v1/workspaces/{self.id}/tool-tokens"
        self._keep(self.app.send(Request("POST", path, json=self._grant, repeats="keyed"), deadline))

    def _resume(self, deadline: Deadline) -> None:
        while True:
            answer = self._started(deadline)
            self.view = answer["workspace"]
            # An unfinished resume is answered without a token.
            token = answer.get("tool_token")
            if token is not None:
                self._keep(token)
                return
            if answer["operation"] is None:
                self._renew(deadline)
                return
            self.app.succeeded(answer["operation"], deadline)

    def _started(self, deadline: Deadline) -> Any:
        """Requests that the workspace runs. A failed workspace cannot be resumed: it is opened again with the original request."""
        path = f"/v1/workspaces/{self.id}/resume"
        try:
            return self.app.send(Request("POST", path, headers=PREFER_WAIT, json=self._grant, key=True), deadline)
        except BerthError as error:
            if error.reason != "not_suspended" or self.manner.open is None:
                raise
        again = Request("POST", "/v1/workspaces/open", headers=PREFER_WAIT, json=self.manner.open, key=True)
        return self.app.send(again, deadline)

    def _keep(self, token: Mapping[str, Any]) -> None:
        # Uses only the difference of the server's times: the local clock may differ.
        lives = (_time(token["expires_at"]) - _time(token["issued_at"])).total_seconds()
        self._place = token["cell_endpoint"], token["token"]
        self._good_until = time.monotonic() + max(lives - _EARLY_SECONDS, lives / 2)


def _time(text: str) -> datetime:
    # Python before 3.11 cannot parse Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))

# Made by tools/sync.py from berth/_async/drafts.py. Do not change it by hand.
"""Drafts: the next version of a template, edited in a workspace. A template has at most one draft, named by its slug."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._requests import OPERATION_SECONDS, PREFER_WAIT, Request, deadline_of, given
from .app import App
from .gateway import Manner
from .list import List, list_of
from .workspace import Workspace

if TYPE_CHECKING:
    from .. import types


class Drafts:
    def __init__(self, app: App) -> None:
        self._app = app

    def open(
        self,
        slug: str,
        *,
        base: str | None = None,
        display_name: str | None = None,
        project: str | None = None,
        wait_seconds: float | None = None,
        **fields: Any,
    ) -> Workspace:
        """Opens the draft and returns its workspace when it runs. Creates the template from ``base`` (``slug@version``) where it does
        not exist."""
        json = {"project_id": self._app.project_id(project), **given(base=base, display_name=display_name), **fields}
        return started(self._app, _draft(slug), json, wait_seconds)

    def get(self, slug: str, *, wait_seconds: float | None = None) -> types.TemplateDraft:
        found: types.TemplateDraft = self._app.call(Request("GET", _draft(slug)), wait_seconds)
        return found

    def capture(self, slug: str, *, label: str | None = None, wait_seconds: float | None = None) -> types.DraftState:
        """Captures the draft's present state, and returns when it is stored. The draft continues."""
        place = f"{_draft(slug)}/states"
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        operation = self._app.send(Request("POST", place, json=given(label=label), key=True), deadline)
        self._app.succeeded(operation, deadline)
        states: List[types.DraftState] = list_of(lambda asked, _wait: self._app.send(asked, deadline), place)
        for state in states:
            if state["operation_id"] == operation["id"]:
                return state
        raise TypeError("A state that was captured is not among those of the draft")

    def states(self, slug: str, *, wait_seconds: float | None = None) -> List[types.DraftState]:
        """Lists states, newest first. ``delete_checkpoint(state["checkpoint_id"])`` on the draft's workspace deletes one."""
        return list_of(self._app.call, f"{_draft(slug)}/states", None, wait_seconds)

    def test(
        self, slug: str, *, state_id: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Workspace:
        """Starts a session workspace from the state ``state_id``; default: the newest."""
        return started(self._app, f"{_draft(slug)}/test-instances", {**given(state_id=state_id), **fields}, wait_seconds)

    def test_instances(
        self, slug: str, *, include_ended: bool | None = None, wait_seconds: float | None = None
    ) -> List[types.Workspace]:
        """Lists live test instances; with ``include_ended`` all of them."""
        return list_of(self._app.call, f"{_draft(slug)}/test-instances", {"include_ended": include_ended}, wait_seconds)

    def publish(
        self, slug: str, *, state_id: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.TemplateBuild:
        """Starts a build of a version from a state, or from the draft's present state. ``templates.wait_for_build`` waits for it.
        ``fields``: ``auto_publish``, ``settings`` and the others of the route."""
        asked = Request("POST", f"{_draft(slug)}/publish", json={**given(state_id=state_id), **fields}, key=True)
        answer: types.SaveAsTemplateResponse = self._app.call(asked, wait_seconds)
        return answer["build"]

    def discard(self, slug: str, *, wait: bool = True, wait_seconds: float | None = None) -> types.Operation:
        """Deletes the draft and its states, and ends its test instances. Published versions stay."""
        operation: types.Operation = self._app.operate(Request("DELETE", _draft(slug), key=True), wait, wait_seconds)
        return operation


def started(app: App, path: str, json: Mapping[str, Any], wait_seconds: float | None) -> Workspace:
    """Requests a workspace and waits until it runs."""
    deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
    answer = app.send(Request("POST", path, json=json, headers=PREFER_WAIT, key=True), deadline)
    if answer["operation"] is not None:
        app.succeeded(answer["operation"], deadline)
    view = app.send(Request("GET", f"/v1/workspaces/{answer['workspace']['id']}"), deadline)
    return Workspace(app, view, Manner(), None)


def _draft(slug: str) -> str:
    return f"/v1/templates/{quote(slug, safe='')}/draft"

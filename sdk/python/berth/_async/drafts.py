"""Drafts: the next version of a template, edited in a workspace. A template has at most one draft, named by its slug."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._requests import OPERATION_SECONDS, PREFER_WAIT, Request, deadline_of, given
from .app import AsyncApp
from .gateway import Manner
from .list import AsyncList, list_of
from .workspace import AsyncWorkspace

if TYPE_CHECKING:
    from .. import types


class AsyncDrafts:
    def __init__(self, app: AsyncApp) -> None:
        self._app = app

    async def open(
        self,
        slug: str,
        *,
        base: str | None = None,
        display_name: str | None = None,
        project: str | None = None,
        wait_seconds: float | None = None,
        **fields: Any,
    ) -> AsyncWorkspace:
        """Opens the draft and returns its workspace when it runs. Creates the template from ``base`` (``slug@version``) where it does
        not exist."""
        json = {"project_id": await self._app.project_id(project), **given(base=base, display_name=display_name), **fields}
        return await started(self._app, _draft(slug), json, wait_seconds)

    async def get(self, slug: str, *, wait_seconds: float | None = None) -> types.TemplateDraft:
        found: types.TemplateDraft = await self._app.call(Request("GET", _draft(slug)), wait_seconds)
        return found

    async def capture(self, slug: str, *, label: str | None = None, wait_seconds: float | None = None) -> types.DraftState:
        """Captures the draft's present state, and returns when it is stored. The draft continues."""
        place = f"{_draft(slug)}/states"
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        operation = await self._app.send(Request("POST", place, json=given(label=label), key=True), deadline)
        await self._app.succeeded(operation, deadline)
        states: AsyncList[types.DraftState] = list_of(lambda asked, _wait: self._app.send(asked, deadline), place)
        async for state in states:
            if state["operation_id"] == operation["id"]:
                return state
        raise TypeError("A state that was captured is not among those of the draft")

    def states(self, slug: str, *, wait_seconds: float | None = None) -> AsyncList[types.DraftState]:
        """Lists states, newest first. ``delete_checkpoint(state["checkpoint_id"])`` on the draft's workspace deletes one."""
        return list_of(self._app.call, f"{_draft(slug)}/states", None, wait_seconds)

    async def test(
        self, slug: str, *, state_id: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> AsyncWorkspace:
        """Starts a session workspace from the state ``state_id``; default: the newest."""
        return await started(self._app, f"{_draft(slug)}/test-instances", {**given(state_id=state_id), **fields}, wait_seconds)

    def test_instances(
        self, slug: str, *, include_ended: bool | None = None, wait_seconds: float | None = None
    ) -> AsyncList[types.Workspace]:
        """Lists live test instances; with ``include_ended`` all of them."""
        return list_of(self._app.call, f"{_draft(slug)}/test-instances", {"include_ended": include_ended}, wait_seconds)

    async def publish(
        self, slug: str, *, state_id: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.TemplateBuild:
        """Starts a build of a version from a state, or from the draft's present state. ``templates.wait_for_build`` waits for it.
        ``fields``: ``auto_publish``, ``settings`` and the others of the route."""
        asked = Request("POST", f"{_draft(slug)}/publish", json={**given(state_id=state_id), **fields}, key=True)
        answer: types.SaveAsTemplateResponse = await self._app.call(asked, wait_seconds)
        return answer["build"]

    async def discard(self, slug: str, *, wait: bool = True, wait_seconds: float | None = None) -> types.Operation:
        """Deletes the draft and its states, and ends its test instances. Published versions stay."""
        operation: types.Operation = await self._app.operate(Request("DELETE", _draft(slug), key=True), wait, wait_seconds)
        return operation


async def started(app: AsyncApp, path: str, json: Mapping[str, Any], wait_seconds: float | None) -> AsyncWorkspace:
    """Requests a workspace and waits until it runs."""
    deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
    answer = await app.send(Request("POST", path, json=json, headers=PREFER_WAIT, key=True), deadline)
    if answer["operation"] is not None:
        await app.succeeded(answer["operation"], deadline)
    view = await app.send(Request("GET", f"/v1/workspaces/{answer['workspace']['id']}"), deadline)
    return AsyncWorkspace(app, view, Manner(), None)


def _draft(slug: str) -> str:
    return f"/v1/templates/{quote(slug, safe='')}/draft"

"""Drafts of templates: the next version, worked on in a workspace. A template has at most one draft, by its slug."""

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
        """Returns the workspace of the draft when it runs. A template that is not there is made, of ``base``, which is
        ``slug@version``."""
        json = {"project_id": await self._app.project_id(project), **given(base=base, display_name=display_name), **fields}
        return await started(self._app, _draft(slug), json, wait_seconds)

    async def get(self, slug: str, *, wait_seconds: float | None = None) -> types.TemplateDraft:
        found: types.TemplateDraft = await self._app.call(Request("GET", _draft(slug)), wait_seconds)
        return found

    async def capture(self, slug: str, *, label: str | None = None, wait_seconds: float | None = None) -> types.DraftState:
        """Keeps what the draft holds now, and the draft goes on. Returns when it is kept."""
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
        """The newest first. ``delete_checkpoint(state["checkpoint_id"])`` of the draft's workspace gives one up."""
        return list_of(self._app.call, f"{_draft(slug)}/states", None, wait_seconds)

    async def test(
        self, slug: str, *, state_id: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> AsyncWorkspace:
        """A session workspace that boots on a state: on the newest where ``state_id`` does not say another."""
        return await started(self._app, f"{_draft(slug)}/test-instances", {**given(state_id=state_id), **fields}, wait_seconds)

    def test_instances(
        self, slug: str, *, include_ended: bool | None = None, wait_seconds: float | None = None
    ) -> AsyncList[types.Workspace]:
        """Those that live, unless ``include_ended`` asks for all."""
        return list_of(self._app.call, f"{_draft(slug)}/test-instances", {"include_ended": include_ended}, wait_seconds)

    async def publish(
        self, slug: str, *, state_id: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.TemplateBuild:
        """Begins to make a version of a state, or of what the draft holds now. ``templates.wait_for_build`` waits for it. ``fields``
        are those of the route: ``auto_publish``, ``settings`` and others."""
        asked = Request("POST", f"{_draft(slug)}/publish", json={**given(state_id=state_id), **fields}, key=True)
        answer: types.SaveAsTemplateResponse = await self._app.call(asked, wait_seconds)
        return answer["build"]

    async def discard(self, slug: str, *, wait: bool = True, wait_seconds: float | None = None) -> types.Operation:
        """Deletes the draft with its states. Its test instances end; versions that were published stay."""
        operation: types.Operation = await self._app.operate(Request("DELETE", _draft(slug), key=True), wait, wait_seconds)
        return operation


async def started(app: AsyncApp, path: str, json: Mapping[str, Any], wait_seconds: float | None) -> AsyncWorkspace:
    """Asks for a workspace, and returns it when it runs."""
    deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
    answer = await app.send(Request("POST", path, json=json, headers=PREFER_WAIT, key=True), deadline)
    if answer["operation"] is not None:
        await app.succeeded(answer["operation"], deadline)
    view = await app.send(Request("GET", f"/v1/workspaces/{answer['workspace']['id']}"), deadline)
    return AsyncWorkspace(app, view, Manner(), None)


def _draft(slug: str) -> str:
    return f"/v1/templates/{quote(slug, safe='')}/draft"

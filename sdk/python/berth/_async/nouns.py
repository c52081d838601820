"""What belongs to projects and organizations. ``project`` and ``organization``: None is the one that the key belongs to.

``fields`` are those of the route, as the reference spells them.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._requests import (
    OPERATION_SECONDS,
    PREFER_WAIT,
    TRANSFER_SECONDS,
    Request,
    deadline_of,
    if_match_of,
    may_repeat,
    wait_before,
)
from .._source import Source
from ..errors import BerthError
from . import platform
from .app import AsyncApp
from .gateway import Manner
from .list import AsyncList, list_of
from .workspace import AsyncWorkspace

if TYPE_CHECKING:
    from .. import types

#: Of one request of an upload: the API takes 64 MiB, but a part that breaks off begins anew.
_PART_BYTES = 8 << 20
#: A build may take three hours.
_BUILD_SECONDS = 4 * 3600.0
_LOG_SECONDS = 0.5


class _AsyncNoun:
    def __init__(self, app: AsyncApp) -> None:
        self._app = app

    async def _in_project(self, method: str, below: str, project: str | None, wait_seconds: float | None, **request: Any) -> Any:
        path = await self._app.in_project(below, project)
        return await self._app.call(Request(method, path, **request), wait_seconds)

    async def _in_organization(self, method: str, below: str, organization: str | None, wait: float | None, **request: Any) -> Any:
        path = await self._app.in_organization(below, organization)
        return await self._app.call(Request(method, path, **request), wait)

    def _list_in_project(
        self, below: str, project: str | None, wait_seconds: float | None, query: Mapping[str, Any] | None = None
    ) -> AsyncList[Any]:
        async def path() -> str:
            return await self._app.in_project(below, project)

        return list_of(self._app.call, path, query, wait_seconds)

    def _list_in_organization(
        self, below: str, organization: str | None, wait_seconds: float | None, query: Mapping[str, Any] | None = None
    ) -> AsyncList[Any]:
        async def path() -> str:
            return await self._app.in_organization(below, organization)

        return list_of(self._app.call, path, query, wait_seconds)


class AsyncSecrets(_AsyncNoun):
    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.Secret]:
        return self._list_in_project("/secrets", project, wait_seconds)

    async def get(self, id: str, *, wait_seconds: float | None = None) -> types.Secret:
        secret: types.Secret = await self._app.call(Request("GET", f"/v1/secrets/{id}"), wait_seconds)
        return secret

    async def create(
        self, name: str, value: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Secret:
        json = {"name": name, "value": value, **fields}
        secret: types.Secret = await self._in_project("POST", "/secrets", project, wait_seconds, json=json)
        return secret

    async def update(self, id: str, *, wait_seconds: float | None = None, **fields: Any) -> types.Secret:
        secret: types.Secret = await self._app.call(Request("PATCH", f"/v1/secrets/{id}", json=fields), wait_seconds)
        return secret

    async def rotate(self, id: str, value: str, *, wait_seconds: float | None = None) -> types.SecretVersion:
        """A new value; the ones before are erased."""
        asked = Request("POST", f"/v1/secrets/{id}/versions", json={"value": value}, key=True)
        version: types.SecretVersion = await self._app.call(asked, wait_seconds)
        return version

    def versions(self, id: str, *, wait_seconds: float | None = None) -> AsyncList[types.SecretVersion]:
        return list_of(self._app.call, f"/v1/secrets/{id}/versions", None, wait_seconds)

    async def delete(self, id: str, *, wait_seconds: float | None = None) -> None:
        await self._app.call(Request("DELETE", f"/v1/secrets/{id}", repeats="keyed"), wait_seconds)


class AsyncVolumes(_AsyncNoun):
    def list(
        self, *, include_org_shared: bool | None = None, project: str | None = None, wait_seconds: float | None = None
    ) -> AsyncList[types.Volume]:
        return self._list_in_project("/volumes", project, wait_seconds, {"include_org_shared": include_org_shared})

    async def get(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> types.Volume:
        volume: types.Volume = await self._in_project("GET", f"/volumes/{id}", project, wait_seconds)
        return volume

    async def create(
        self, name: str, quota_gib: int, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Volume:
        """Returns when it is there."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        json = {"name": name, "quota_gib": quota_gib, **fields}
        answer = await self._in_project("POST", "/volumes", project, wait_seconds, json=json, key=True)
        await self._app.succeeded(answer["operation"], deadline)
        return await self.get(answer["volume"]["id"], project=project, wait_seconds=wait_seconds)

    async def delete(
        self,
        id: str,
        *,
        force: bool | None = None,
        confirm_name: str | None = None,
        project: str | None = None,
        wait_seconds: float | None = None,
    ) -> None:
        """Returns when its data are gone. One that is attached needs ``force`` and its name."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        query = {"force": force, "confirm_name": confirm_name}
        answer = await self._in_project("DELETE", f"/volumes/{id}", project, wait_seconds, query=query, key=True)
        await self._app.succeeded(answer["operation"], deadline)


class AsyncEgress(_AsyncNoun):
    """Of a project: what its workspaces may reach."""

    async def get(self, *, project: str | None = None, wait_seconds: float | None = None) -> types.ProjectEgressPolicy:
        policy: types.ProjectEgressPolicy = await self._in_project("GET", "/egress-policy", project, wait_seconds)
        return policy

    async def set(
        self, mode: str, *, if_match: int | None = None, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ProjectEgressPolicy:
        json = {"mode": mode, **fields}
        headers = if_match_of(if_match)
        policy: types.ProjectEgressPolicy = await self._in_project("PUT", "/egress-policy", project, wait_seconds, json=json, headers=headers)
        return policy

    def versions(self, *, project: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.EgressVersion]:
        return self._list_in_project("/egress-policy/versions", project, wait_seconds)


class AsyncTemplates(_AsyncNoun):
    def list(self, *, wait_seconds: float | None = None) -> AsyncList[types.Template]:
        return list_of(self._app.call, "/v1/templates", None, wait_seconds)

    async def get(self, slug: str, *, wait_seconds: float | None = None) -> types.Template:
        template: types.Template = await self._app.call(Request("GET", _template(slug)), wait_seconds)
        return template

    def versions(self, slug: str, *, wait_seconds: float | None = None) -> AsyncList[types.TemplateVersion]:
        return list_of(self._app.call, f"{_template(slug)}/versions", None, wait_seconds)

    async def publish(self, slug: str, version: int, *, wait_seconds: float | None = None) -> types.TemplateVersion:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/publish", json={})
        published: types.TemplateVersion = await self._app.call(asked, wait_seconds)
        return published

    async def archive(self, slug: str, version: int, *, wait_seconds: float | None = None) -> types.TemplateVersion:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/archive", json={})
        archived: types.TemplateVersion = await self._app.call(asked, wait_seconds)
        return archived

    async def upload(
        self, tar: bytes | str | os.PathLike[str], *, project: str | None = None, wait_seconds: float | None = None
    ) -> types.TemplateUpload:
        """A tar, plain or compressed by gzip, that builds take files from: its bytes, or the file that has them. It goes on where a
        connection broke."""
        deadline = deadline_of(wait_seconds, TRANSFER_SECONDS)
        source = Source(tar)
        json = {"size_bytes": source.size, "sha256": source.sha256(), "project_id": await self._app.project_id(project)}
        seen: types.TemplateUpload = await self._app.send(Request("POST", "/v1/template-uploads", json=json), deadline)
        path = f"/v1/template-uploads/{seen['id']}"
        attempt = 0
        while seen["state"] != "complete":
            offset: int = seen["received_bytes"]
            headers = {"content-type": "application/octet-stream"}
            asked = Request("PUT", path, query={"offset": offset}, headers=headers, body=source.read(offset, _PART_BYTES))
            try:
                seen = await self._app.send(asked, deadline)
                attempt = 0
            except BerthError as error:
                if not may_repeat(error, "read"):
                    raise
                await platform.sleep(min(wait_before(attempt, error.retry_after_seconds), max(deadline.left(), 0)))
                attempt += 1
                # A part may be there whose answer was lost: what is next is asked.
                seen = await self._app.send(Request("GET", path), deadline)
        return seen

    async def build(self, slug: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any) -> types.TemplateBuild:
        """Begins to make a version, by ``recipe`` or ``dockerfile``; a template that is not there is made. ``fields`` are those of the
        route: ``upload_id``, ``build_args``, ``auto_publish`` and others."""
        json = {"project_id": await self._app.project_id(project), **fields}
        answer = await self._app.call(Request("POST", f"{_template(slug)}/builds", json=json, key=True), wait_seconds)
        build: types.TemplateBuild = answer["build"]
        return build

    async def get_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        build: types.TemplateBuild = await self._app.call(Request("GET", f"/v1/template-builds/{build_id}"), wait_seconds)
        return build

    async def build_log(self, build_id: str, *, offset: int = 0, wait_seconds: float | None = None) -> AsyncIterator[str]:
        """What a build says, until it has said all."""
        deadline = deadline_of(wait_seconds, _BUILD_SECONDS)
        while True:
            asked = Request("GET", f"/v1/template-builds/{build_id}/log", query={"offset": offset})
            piece = await self._app.send(asked, deadline)
            if piece["text"]:
                yield piece["text"]
            if piece["complete"]:
                return
            if piece["next_offset"] == offset:
                await platform.sleep(_LOG_SECONDS)
            offset = piece["next_offset"]

    async def wait_for_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        """Returns when it is over, however it ended."""
        deadline = deadline_of(wait_seconds, _BUILD_SECONDS)
        attempt = 0
        while True:
            build: types.TemplateBuild = await self._app.send(
                Request("GET", f"/v1/template-builds/{build_id}", headers=PREFER_WAIT), deadline
            )
            if build["completed_at"] is not None:
                return build
            await platform.sleep(min(wait_before(attempt, None), max(deadline.left(), 0)))
            attempt += 1

    async def cancel_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        """It makes no version then."""
        asked = Request("POST", f"/v1/template-builds/{build_id}/cancel", json={}, key=True)
        build: types.TemplateBuild = await self._app.call(asked, wait_seconds)
        return build

    async def test(
        self, slug: str, version: int, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> AsyncWorkspace:
        """A session workspace of a version, published or not, to try it. ``fields`` are those of the route: ``key``, ``inputs`` and
        others."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        json = {"project_id": await self._app.project_id(project), **fields}
        path = f"{_template(slug)}/versions/{version}/test-instances"
        answer = await self._app.send(Request("POST", path, json=json, headers=PREFER_WAIT, key=True), deadline)
        if answer["operation"] is not None:
            await self._app.succeeded(answer["operation"], deadline)
        view = await self._app.send(Request("GET", f"/v1/workspaces/{answer['workspace']['id']}"), deadline)
        return AsyncWorkspace(self._app, view, Manner(), None)


def _template(slug: str) -> str:
    return f"/v1/templates/{quote(slug, safe='')}"


class AsyncUsage(_AsyncNoun):
    """``query`` is that of the route: ``granularity``, ``meter``, ``workspace_id`` and others."""

    async def summary(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.UsageSummary:
        answer: types.UsageSummary = await self._in_organization("GET", "/usage/summary", organization, wait_seconds)
        return answer

    async def series(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> types.UsageSeries:
        answer: types.UsageSeries = await self._in_organization("GET", "/usage", organization, wait_seconds, query=query or {})
        return answer

    async def estimate(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> types.UsageEstimate:
        path = "/usage/estimate"
        answer: types.UsageEstimate = await self._in_organization("GET", path, organization, wait_seconds, query=query or {})
        return answer

    async def spend(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Spend:
        answer: types.Spend = await self._in_organization("GET", "/spend", organization, wait_seconds)
        return answer


class AsyncOrganizations(_AsyncNoun):
    def list(self, *, wait_seconds: float | None = None) -> AsyncList[types.Organization]:
        return list_of(self._app.call, "/v1/organizations", None, wait_seconds)

    async def get(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Organization:
        found: types.Organization = await self._in_organization("GET", "", organization, wait_seconds)
        return found

    def projects(self, *, organization: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.Project]:
        return self._list_in_organization("/projects", organization, wait_seconds)

    def audit(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> AsyncList[types.AuditEvent]:
        return self._list_in_organization("/audit", organization, wait_seconds, query)


class AsyncMembers(_AsyncNoun):
    """For a person's session alone."""

    def list(self, *, organization: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.Member]:
        return self._list_in_organization("/members", organization, wait_seconds)

    async def update(
        self, person_id: str, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Member:
        path = f"/members/{person_id}"
        member: types.Member = await self._in_organization("PATCH", path, organization, wait_seconds, json=fields)
        return member

    async def remove(self, person_id: str, *, organization: str | None = None, wait_seconds: float | None = None) -> None:
        await self._in_organization("DELETE", f"/members/{person_id}", organization, wait_seconds)

    def invitations(self, *, organization: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.Invitation]:
        return self._list_in_organization("/invitations", organization, wait_seconds)

    async def invite(
        self, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Invitation:
        invited: types.Invitation = await self._in_organization("POST", "/invitations", organization, wait_seconds, json=fields)
        return invited


class AsyncKeys(_AsyncNoun):
    """For a person's session alone."""

    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.ApiKey]:
        return self._list_in_project("/api-keys", project, wait_seconds)

    async def create(
        self, tool_permissions: Sequence[str], *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ApiKeyCreated:
        """The whole key is in the answer, this once."""
        # In this class `list` is a method.
        json = {"tool_permissions": [*tool_permissions], **fields}
        created: types.ApiKeyCreated = await self._in_project("POST", "/api-keys", project, wait_seconds, json=json)
        return created

    async def update(
        self, id: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ApiKey:
        key: types.ApiKey = await self._in_project("PATCH", f"/api-keys/{id}", project, wait_seconds, json=fields)
        return key

    async def revoke(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> None:
        await self._in_project("DELETE", f"/api-keys/{id}", project, wait_seconds)

# Made by tools/sync.py from berth/_async/nouns.py. Do not change it by hand.
"""What belongs to projects and organizations. ``project`` and ``organization``: None is the one that the key belongs to.

``fields`` are those of the route, as the reference spells them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
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
from .app import App
from .gateway import Manner
from .list import List, list_of
from .workspace import Workspace

if TYPE_CHECKING:
    from .. import types

#: Of one request of an upload: the API takes 64 MiB, but a part that breaks off begins anew.
_PART_BYTES = 8 << 20
#: A build may take three hours.
_BUILD_SECONDS = 4 * 3600.0
_LOG_SECONDS = 0.5


class _Noun:
    def __init__(self, app: App) -> None:
        self._app = app

    def _in_project(self, method: str, below: str, project: str | None, wait_seconds: float | None, **request: Any) -> Any:
        path = self._app.in_project(below, project)
        return self._app.call(Request(method, path, **request), wait_seconds)

    def _in_organization(self, method: str, below: str, organization: str | None, wait: float | None, **request: Any) -> Any:
        path = self._app.in_organization(below, organization)
        return self._app.call(Request(method, path, **request), wait)

    def _list_in_project(
        self, below: str, project: str | None, wait_seconds: float | None, query: Mapping[str, Any] | None = None
    ) -> List[Any]:
        def path() -> str:
            return self._app.in_project(below, project)

        return list_of(self._app.call, path, query, wait_seconds)

    def _list_in_organization(
        self, below: str, organization: str | None, wait_seconds: float | None, query: Mapping[str, Any] | None = None
    ) -> List[Any]:
        def path() -> str:
            return self._app.in_organization(below, organization)

        return list_of(self._app.call, path, query, wait_seconds)


class Secrets(_Noun):
    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> List[types.Secret]:
        return self._list_in_project("/secrets", project, wait_seconds)

    def get(self, id: str, *, wait_seconds: float | None = None) -> types.Secret:
        secret: types.Secret = self._app.call(Request("GET", f"/v1/secrets/{id}"), wait_seconds)
        return secret

    def create(
        self, name: str, value: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Secret:
        json = {"name": name, "value": value, **fields}
        secret: types.Secret = self._in_project("POST", "/secrets", project, wait_seconds, json=json)
        return secret

    def update(self, id: str, *, wait_seconds: float | None = None, **fields: Any) -> types.Secret:
        secret: types.Secret = self._app.call(Request("PATCH", f"/v1/secrets/{id}", json=fields), wait_seconds)
        return secret

    def rotate(self, id: str, value: str, *, wait_seconds: float | None = None) -> types.SecretVersion:
        """A new value; the ones before are erased."""
        asked = Request("POST", f"/v1/secrets/{id}/versions", json={"value": value}, key=True)
        version: types.SecretVersion = self._app.call(asked, wait_seconds)
        return version

    def versions(self, id: str, *, wait_seconds: float | None = None) -> List[types.SecretVersion]:
        return list_of(self._app.call, f"/v1/secrets/{id}/versions", None, wait_seconds)

    def delete(self, id: str, *, wait_seconds: float | None = None) -> None:
        self._app.call(Request("DELETE", f"/v1/secrets/{id}", repeats="keyed"), wait_seconds)


class Volumes(_Noun):
    def list(
        self, *, include_org_shared: bool | None = None, project: str | None = None, wait_seconds: float | None = None
    ) -> List[types.Volume]:
        return self._list_in_project("/volumes", project, wait_seconds, {"include_org_shared": include_org_shared})

    def get(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> types.Volume:
        volume: types.Volume = self._in_project("GET", f"/volumes/{id}", project, wait_seconds)
        return volume

    def create(
        self, name: str, quota_gib: int, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Volume:
        """Returns when it is there."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        json = {"name": name, "quota_gib": quota_gib, **fields}
        answer = self._in_project("POST", "/volumes", project, wait_seconds, json=json, key=True)
        self._app.succeeded(answer["operation"], deadline)
        return self.get(answer["volume"]["id"], project=project, wait_seconds=wait_seconds)

    def delete(
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
        answer = self._in_project("DELETE", f"/volumes/{id}", project, wait_seconds, query=query, key=True)
        self._app.succeeded(answer["operation"], deadline)


class Egress(_Noun):
    """Of a project: what its workspaces may reach."""

    def get(self, *, project: str | None = None, wait_seconds: float | None = None) -> types.ProjectEgressPolicy:
        policy: types.ProjectEgressPolicy = self._in_project("GET", "/egress-policy", project, wait_seconds)
        return policy

    def set(
        self, mode: str, *, if_match: int | None = None, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ProjectEgressPolicy:
        json = {"mode": mode, **fields}
        headers = if_match_of(if_match)
        policy: types.ProjectEgressPolicy = self._in_project("PUT", "/egress-policy", project, wait_seconds, json=json, headers=headers)
        return policy

    def versions(self, *, project: str | None = None, wait_seconds: float | None = None) -> List[types.EgressVersion]:
        return self._list_in_project("/egress-policy/versions", project, wait_seconds)


class Templates(_Noun):
    def list(self, *, wait_seconds: float | None = None) -> List[types.Template]:
        return list_of(self._app.call, "/v1/templates", None, wait_seconds)

    def get(self, slug: str, *, wait_seconds: float | None = None) -> types.Template:
        template: types.Template = self._app.call(Request("GET", _template(slug)), wait_seconds)
        return template

    def versions(self, slug: str, *, wait_seconds: float | None = None) -> List[types.TemplateVersion]:
        return list_of(self._app.call, f"{_template(slug)}/versions", None, wait_seconds)

    def publish(self, slug: str, version: int, *, wait_seconds: float | None = None) -> types.TemplateVersion:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/publish", json={})
        published: types.TemplateVersion = self._app.call(asked, wait_seconds)
        return published

    def archive(self, slug: str, version: int, *, wait_seconds: float | None = None) -> types.TemplateVersion:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/archive", json={})
        archived: types.TemplateVersion = self._app.call(asked, wait_seconds)
        return archived

    def upload(
        self, tar: bytes | str | os.PathLike[str], *, project: str | None = None, wait_seconds: float | None = None
    ) -> types.TemplateUpload:
        """A tar, plain or compressed by gzip, that builds take files from: its bytes, or the file that has them. It goes on where a
        connection broke."""
        deadline = deadline_of(wait_seconds, TRANSFER_SECONDS)
        source = Source(tar)
        json = {"size_bytes": source.size, "sha256": source.sha256(), "project_id": self._app.project_id(project)}
        seen: types.TemplateUpload = self._app.send(Request("POST", "/v1/template-uploads", json=json), deadline)
        path = f"/v1/template-uploads/{seen['id']}"
        attempt = 0
        while seen["state"] != "complete":
            offset: int = seen["received_bytes"]
            headers = {"content-type": "application/octet-stream"}
            asked = Request("PUT", path, query={"offset": offset}, headers=headers, body=source.read(offset, _PART_BYTES))
            try:
                seen = self._app.send(asked, deadline)
                attempt = 0
            except BerthError as error:
                if not may_repeat(error, "read"):
                    raise
                platform.sleep(min(wait_before(attempt, error.retry_after_seconds), max(deadline.left(), 0)))
                attempt += 1
                # A part may be there whose answer was lost: what is next is asked.
                seen = self._app.send(Request("GET", path), deadline)
        return seen

    def build(self, slug: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any) -> types.TemplateBuild:
        """Begins to make a version, by ``recipe`` or ``dockerfile``; a template that is not there is made. ``fields`` are those of the
        route: ``upload_id``, ``build_args``, ``auto_publish`` and others."""
        json = {"project_id": self._app.project_id(project), **fields}
        answer = self._app.call(Request("POST", f"{_template(slug)}/builds", json=json, key=True), wait_seconds)
        build: types.TemplateBuild = answer["build"]
        return build

    def get_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        build: types.TemplateBuild = self._app.call(Request("GET", f"/v1/template-builds/{build_id}"), wait_seconds)
        return build

    def build_log(self, build_id: str, *, offset: int = 0, wait_seconds: float | None = None) -> Iterator[str]:
        """What a build says, until it has said all."""
        deadline = deadline_of(wait_seconds, _BUILD_SECONDS)
        while True:
            asked = Request("GET", f"/v1/template-builds/{build_id}/log", query={"offset": offset})
            piece = self._app.send(asked, deadline)
            if piece["text"]:
                yield piece["text"]
            if piece["complete"]:
                return
            if piece["next_offset"] == offset:
                platform.sleep(_LOG_SECONDS)
            offset = piece["next_offset"]

    def wait_for_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        """Returns when it is over, however it ended."""
        deadline = deadline_of(wait_seconds, _BUILD_SECONDS)
        attempt = 0
        while True:
            build: types.TemplateBuild = self._app.send(
                Request("GET", f"/v1/template-builds/{build_id}", headers=PREFER_WAIT), deadline
            )
            if build["completed_at"] is not None:
                return build
            platform.sleep(min(wait_before(attempt, None), max(deadline.left(), 0)))
            attempt += 1

    def cancel_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        """It makes no version then."""
        asked = Request("POST", f"/v1/template-builds/{build_id}/cancel", json={}, key=True)
        build: types.TemplateBuild = self._app.call(asked, wait_seconds)
        return build

    def test(
        self, slug: str, version: int, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Workspace:
        """A session workspace of a version, published or not, to try it. ``fields`` are those of the route: ``key``, ``inputs`` and
        others."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        json = {"project_id": self._app.project_id(project), **fields}
        path = f"{_template(slug)}/versions/{version}/test-instances"
        answer = self._app.send(Request("POST", path, json=json, headers=PREFER_WAIT, key=True), deadline)
        if answer["operation"] is not None:
            self._app.succeeded(answer["operation"], deadline)
        view = self._app.send(Request("GET", f"/v1/workspaces/{answer['workspace']['id']}"), deadline)
        return Workspace(self._app, view, Manner(), None)


def _template(slug: str) -> str:
    return f"/v1/templates/{quote(slug, safe='')}"


class Usage(_Noun):
    """``query`` is that of the route: ``granularity``, ``meter``, ``workspace_id`` and others."""

    def summary(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.UsageSummary:
        answer: types.UsageSummary = self._in_organization("GET", "/usage/summary", organization, wait_seconds)
        return answer

    def series(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> types.UsageSeries:
        answer: types.UsageSeries = self._in_organization("GET", "/usage", organization, wait_seconds, query=query or {})
        return answer

    def estimate(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> types.UsageEstimate:
        path = "/usage/estimate"
        answer: types.UsageEstimate = self._in_organization("GET", path, organization, wait_seconds, query=query or {})
        return answer

    def spend(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Spend:
        answer: types.Spend = self._in_organization("GET", "/spend", organization, wait_seconds)
        return answer


class Organizations(_Noun):
    def list(self, *, wait_seconds: float | None = None) -> List[types.Organization]:
        return list_of(self._app.call, "/v1/organizations", None, wait_seconds)

    def get(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Organization:
        found: types.Organization = self._in_organization("GET", "", organization, wait_seconds)
        return found

    def projects(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List[types.Project]:
        return self._list_in_organization("/projects", organization, wait_seconds)

    def audit(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> List[types.AuditEvent]:
        return self._list_in_organization("/audit", organization, wait_seconds, query)


class Members(_Noun):
    """For a person's session alone."""

    def list(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List[types.Member]:
        return self._list_in_organization("/members", organization, wait_seconds)

    def update(
        self, person_id: str, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Member:
        path = f"/members/{person_id}"
        member: types.Member = self._in_organization("PATCH", path, organization, wait_seconds, json=fields)
        return member

    def remove(self, person_id: str, *, organization: str | None = None, wait_seconds: float | None = None) -> None:
        self._in_organization("DELETE", f"/members/{person_id}", organization, wait_seconds)

    def invitations(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List[types.Invitation]:
        return self._list_in_organization("/invitations", organization, wait_seconds)

    def invite(
        self, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Invitation:
        invited: types.Invitation = self._in_organization("POST", "/invitations", organization, wait_seconds, json=fields)
        return invited


class Keys(_Noun):
    """For a person's session alone."""

    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> List[types.ApiKey]:
        return self._list_in_project("/api-keys", project, wait_seconds)

    def create(
        self, tool_permissions: Sequence[str], *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ApiKeyCreated:
        """The whole key is in the answer, this once."""
        # In this class `list` is a method.
        json = {"tool_permissions": [*tool_permissions], **fields}
        created: types.ApiKeyCreated = self._in_project("POST", "/api-keys", project, wait_seconds, json=json)
        return created

    def update(
        self, id: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ApiKey:
        key: types.ApiKey = self._in_project("PATCH", f"/api-keys/{id}", project, wait_seconds, json=fields)
        return key

    def revoke(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> None:
        self._in_project("DELETE", f"/api-keys/{id}", project, wait_seconds)

# Made by tools/sync.py from berth/_async/nouns.py. Do not change it by hand.
"""What belongs to projects and organizations. ``project`` and ``organization``: None is the one that the key belongs to.

``fields`` are those of the route, as the reference spells them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from .._requests import OPERATION_SECONDS, Request, deadline_of, if_match_of
from .app import App
from .list import List, list_of


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
    ) -> List:
        def path() -> str:
            return self._app.in_project(below, project)

        return list_of(self._app.call, path, query, wait_seconds)

    def _list_in_organization(
        self, below: str, organization: str | None, wait_seconds: float | None, query: Mapping[str, Any] | None = None
    ) -> List:
        def path() -> str:
            return self._app.in_organization(below, organization)

        return list_of(self._app.call, path, query, wait_seconds)


class Secrets(_Noun):
    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> List:
        return self._list_in_project("/secrets", project, wait_seconds)

    def get(self, id: str, *, wait_seconds: float | None = None) -> Mapping[str, Any]:
        secret: Mapping[str, Any] = self._app.call(Request("GET", f"/v1/secrets/{id}"), wait_seconds)
        return secret

    def create(
        self, name: str, value: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Mapping[str, Any]:
        json = {"name": name, "value": value, **fields}
        secret: Mapping[str, Any] = self._in_project("POST", "/secrets", project, wait_seconds, json=json)
        return secret

    def update(self, id: str, *, wait_seconds: float | None = None, **fields: Any) -> Mapping[str, Any]:
        secret: Mapping[str, Any] = self._app.call(Request("PATCH", f"/v1/secrets/{id}", json=fields), wait_seconds)
        return secret

    def rotate(self, id: str, value: str, *, wait_seconds: float | None = None) -> Mapping[str, Any]:
        """A new value; the ones before are erased."""
        asked = Request("POST", f"/v1/secrets/{id}/versions", json={"value": value}, key=True)
        version: Mapping[str, Any] = self._app.call(asked, wait_seconds)
        return version

    def versions(self, id: str, *, wait_seconds: float | None = None) -> List:
        return list_of(self._app.call, f"/v1/secrets/{id}/versions", None, wait_seconds)

    def delete(self, id: str, *, wait_seconds: float | None = None) -> None:
        self._app.call(Request("DELETE", f"/v1/secrets/{id}", repeats="keyed"), wait_seconds)


class Volumes(_Noun):
    def list(
        self, *, include_org_shared: bool | None = None, project: str | None = None, wait_seconds: float | None = None
    ) -> List:
        return self._list_in_project("/volumes", project, wait_seconds, {"include_org_shared": include_org_shared})

    def get(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> Mapping[str, Any]:
        volume: Mapping[str, Any] = self._in_project("GET", f"/volumes/{id}", project, wait_seconds)
        return volume

    def create(
        self, name: str, quota_gib: int, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Mapping[str, Any]:
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

    def get(self, *, project: str | None = None, wait_seconds: float | None = None) -> Mapping[str, Any]:
        policy: Mapping[str, Any] = self._in_project("GET", "/egress-policy", project, wait_seconds)
        return policy

    def set(
        self, mode: str, *, if_match: int | None = None, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Mapping[str, Any]:
        json = {"mode": mode, **fields}
        headers = if_match_of(if_match)
        policy: Mapping[str, Any] = self._in_project("PUT", "/egress-policy", project, wait_seconds, json=json, headers=headers)
        return policy

    def versions(self, *, project: str | None = None, wait_seconds: float | None = None) -> List:
        return self._list_in_project("/egress-policy/versions", project, wait_seconds)


class Templates(_Noun):
    def list(self, *, wait_seconds: float | None = None) -> List:
        return list_of(self._app.call, "/v1/templates", None, wait_seconds)

    def get(self, slug: str, *, wait_seconds: float | None = None) -> Mapping[str, Any]:
        template: Mapping[str, Any] = self._app.call(Request("GET", _template(slug)), wait_seconds)
        return template

    def versions(self, slug: str, *, wait_seconds: float | None = None) -> List:
        return list_of(self._app.call, f"{_template(slug)}/versions", None, wait_seconds)

    def publish(self, slug: str, version: int, *, wait_seconds: float | None = None) -> Mapping[str, Any]:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/publish", json={})
        published: Mapping[str, Any] = self._app.call(asked, wait_seconds)
        return published

    def archive(self, slug: str, version: int, *, wait_seconds: float | None = None) -> Mapping[str, Any]:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/archive", json={})
        archived: Mapping[str, Any] = self._app.call(asked, wait_seconds)
        return archived


def _template(slug: str) -> str:
    return f"/v1/templates/{quote(slug, safe='')}"


class Usage(_Noun):
    """``query`` is that of the route: ``granularity``, ``meter``, ``workspace_id`` and others."""

    def summary(self, *, organization: str | None = None, wait_seconds: float | None = None) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._in_organization("GET", "/usage/summary", organization, wait_seconds)
        return answer

    def series(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._in_organization("GET", "/usage", organization, wait_seconds, query=query or {})
        return answer

    def estimate(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> Mapping[str, Any]:
        path = "/usage/estimate"
        answer: Mapping[str, Any] = self._in_organization("GET", path, organization, wait_seconds, query=query or {})
        return answer

    def spend(self, *, organization: str | None = None, wait_seconds: float | None = None) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._in_organization("GET", "/spend", organization, wait_seconds)
        return answer


class Organizations(_Noun):
    def list(self, *, wait_seconds: float | None = None) -> List:
        return list_of(self._app.call, "/v1/organizations", None, wait_seconds)

    def get(self, *, organization: str | None = None, wait_seconds: float | None = None) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._in_organization("GET", "", organization, wait_seconds)
        return found

    def projects(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List:
        return self._list_in_organization("/projects", organization, wait_seconds)

    def audit(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> List:
        return self._list_in_organization("/audit", organization, wait_seconds, query)


class Members(_Noun):
    """For a person's session alone."""

    def list(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List:
        return self._list_in_organization("/members", organization, wait_seconds)

    def update(
        self, person_id: str, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Mapping[str, Any]:
        path = f"/members/{person_id}"
        member: Mapping[str, Any] = self._in_organization("PATCH", path, organization, wait_seconds, json=fields)
        return member

    def remove(self, person_id: str, *, organization: str | None = None, wait_seconds: float | None = None) -> None:
        self._in_organization("DELETE", f"/members/{person_id}", organization, wait_seconds)

    def invitations(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List:
        return self._list_in_organization("/invitations", organization, wait_seconds)

    def invite(
        self, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Mapping[str, Any]:
        invited: Mapping[str, Any] = self._in_organization("POST", "/invitations", organization, wait_seconds, json=fields)
        return invited


class Keys(_Noun):
    """For a person's session alone."""

    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> List:
        return self._list_in_project("/api-keys", project, wait_seconds)

    def create(
        self, tool_permissions: Sequence[str], *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Mapping[str, Any]:
        """The whole key is in the answer, this once."""
        # In this class `list` is a method.
        json = {"tool_permissions": [*tool_permissions], **fields}
        created: Mapping[str, Any] = self._in_project("POST", "/api-keys", project, wait_seconds, json=json)
        return created

    def update(
        self, id: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Mapping[str, Any]:
        key: Mapping[str, Any] = self._in_project("PATCH", f"/api-keys/{id}", project, wait_seconds, json=fields)
        return key

    def revoke(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> None:
        self._in_project("DELETE", f"/api-keys/{id}", project, wait_seconds)

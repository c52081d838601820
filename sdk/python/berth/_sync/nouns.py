# Made by tools/sync.py from berth/_async/nouns.py. Do not change it by hand.
"""Objects of projects and organizations. ``project`` and ``organization``: None means those of the key.

``fields`` are those of the route, as the reference spells them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._requests import OPERATION_SECONDS, Request, deadline_of, if_match_of
from .app import App
from .list import List, list_of

if TYPE_CHECKING:
    from .. import types


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
        """Sets a new value and erases the earlier ones."""
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
        """Creates a volume, and returns when it is available."""
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
        """Deletes a volume, and returns when its data are gone. An attached one needs ``force`` and its name."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        query = {"force": force, "confirm_name": confirm_name}
        answer = self._in_project("DELETE", f"/volumes/{id}", project, wait_seconds, query=query, key=True)
        self._app.succeeded(answer["operation"], deadline)


class Egress(_Noun):
    """Egress policy of a project's workspaces."""

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


class Usage(_Noun):
    """Usage, spend and plans. ``query``: ``granularity``, ``meter``, ``workspace_id`` and the others of the route."""

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

    def spend_policy(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.SpendPolicy:
        answer: types.SpendPolicy = self._in_organization("GET", "/spend-policy", organization, wait_seconds)
        return answer

    def entitlements(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Entitlements:
        """Returns the organization's limits."""
        answer: types.Entitlements = self._in_organization("GET", "/entitlements", organization, wait_seconds)
        return answer

    def subscription(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Subscription:
        """Returns the plan, and whether it refuses starts."""
        answer: types.Subscription = self._in_organization("GET", "/subscription", organization, wait_seconds)
        return answer

    def grants(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List[types.UsageGrant]:
        """Lists credits."""
        return self._list_in_organization("/usage/grants", organization, wait_seconds)

    def plans(self, *, wait_seconds: float | None = None) -> List[types.Plan]:
        return list_of(self._app.call, "/v1/plans", None, wait_seconds)


class Organizations(_Noun):
    def list(self, *, wait_seconds: float | None = None) -> List[types.Organization]:
        return list_of(self._app.call, "/v1/organizations", None, wait_seconds)

    def get(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Organization:
        found: types.Organization = self._in_organization("GET", "", organization, wait_seconds)
        return found

    def projects(self, *, organization: str | None = None, wait_seconds: float | None = None) -> List[types.Project]:
        return self._list_in_organization("/projects", organization, wait_seconds)

    def workspaces(
        self, *, organization: str | None = None, wait_seconds: float | None = None, **query: Any
    ) -> List[types.Workspace]:
        """Lists workspaces of all its projects. ``query`` is that of ``berth.workspaces``."""
        return self._list_in_organization("/workspaces", organization, wait_seconds, query)

    def audit(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> List[types.AuditEvent]:
        return self._list_in_organization("/audit", organization, wait_seconds, query)


class Projects(_Noun):
    def get(self, *, project: str | None = None, wait_seconds: float | None = None) -> types.Project:
        found: types.Project = self._in_project("GET", "", project, wait_seconds)
        return found

    def create(
        self, name: str, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Project:
        """Creates a project. Only for a person's session."""
        json = {"name": name, **fields}
        created: types.Project = self._in_organization("POST", "/projects", organization, wait_seconds, json=json)
        return created

    def update(self, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any) -> types.Project:
        """Renames a project by ``name``. Only for a person's session."""
        updated: types.Project = self._in_project("PATCH", "", project, wait_seconds, json=fields)
        return updated


class Members(_Noun):
    """Members and invitations. Only for a person's session."""

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

    def resend_invitation(
        self, id: str, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> types.Invitation:
        """Sends the mail again."""
        path = f"/invitations/{id}/resend"
        invited: types.Invitation = self._in_organization("POST", path, organization, wait_seconds)
        return invited

    def delete_invitation(self, id: str, *, organization: str | None = None, wait_seconds: float | None = None) -> None:
        self._in_organization("DELETE", f"/invitations/{id}", organization, wait_seconds)


class Keys(_Noun):
    """API keys. Only for a person's session."""

    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> List[types.ApiKey]:
        return self._list_in_project("/api-keys", project, wait_seconds)

    def get(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> types.ApiKey:
        key: types.ApiKey = self._in_project("GET", f"/api-keys/{id}", project, wait_seconds)
        return key

    def create(
        self, tool_permissions: Sequence[str], *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ApiKeyCreated:
        """Creates a key. Only this answer contains the whole key."""
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

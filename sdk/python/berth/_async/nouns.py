"""Objects of projects and organizations. ``project`` and ``organization``: None means those of the key.

``fields`` are those of the route, as the reference spells them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._requests import OPERATION_SECONDS, Request, deadline_of, if_match_of
from .app import AsyncApp
from .list import AsyncList, list_of

if TYPE_CHECKING:
    from .. import types


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
        """Sets a new value and erases the earlier ones."""
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
        """Creates a volume, and returns when it is available."""
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
        """Deletes a volume, and returns when its data are gone. An attached one needs ``force`` and its name."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        query = {"force": force, "confirm_name": confirm_name}
        answer = await self._in_project("DELETE", f"/volumes/{id}", project, wait_seconds, query=query, key=True)
        await self._app.succeeded(answer["operation"], deadline)


class AsyncEgress(_AsyncNoun):
    """Egress policy of a project's workspaces."""

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


class AsyncUsage(_AsyncNoun):
    """Usage, spend and plans. ``query``: ``granularity``, ``meter``, ``workspace_id`` and the others of the route."""

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

    async def spend_policy(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.SpendPolicy:
        answer: types.SpendPolicy = await self._in_organization("GET", "/spend-policy", organization, wait_seconds)
        return answer

    async def entitlements(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Entitlements:
        """Returns the organization's limits."""
        answer: types.Entitlements = await self._in_organization("GET", "/entitlements", organization, wait_seconds)
        return answer

    async def subscription(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Subscription:
        """Returns the plan, and whether it refuses starts."""
        answer: types.Subscription = await self._in_organization("GET", "/subscription", organization, wait_seconds)
        return answer

    def grants(self, *, organization: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.UsageGrant]:
        """Lists credits."""
        return self._list_in_organization("/usage/grants", organization, wait_seconds)

    def plans(self, *, wait_seconds: float | None = None) -> AsyncList[types.Plan]:
        return list_of(self._app.call, "/v1/plans", None, wait_seconds)


class AsyncOrganizations(_AsyncNoun):
    def list(self, *, wait_seconds: float | None = None) -> AsyncList[types.Organization]:
        return list_of(self._app.call, "/v1/organizations", None, wait_seconds)

    async def get(self, *, organization: str | None = None, wait_seconds: float | None = None) -> types.Organization:
        found: types.Organization = await self._in_organization("GET", "", organization, wait_seconds)
        return found

    def projects(self, *, organization: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.Project]:
        return self._list_in_organization("/projects", organization, wait_seconds)

    def workspaces(
        self, *, organization: str | None = None, wait_seconds: float | None = None, **query: Any
    ) -> AsyncList[types.Workspace]:
        """Lists workspaces of all its projects. ``query`` is that of ``berth.workspaces``."""
        return self._list_in_organization("/workspaces", organization, wait_seconds, query)

    def audit(
        self, query: Mapping[str, Any] | None = None, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> AsyncList[types.AuditEvent]:
        return self._list_in_organization("/audit", organization, wait_seconds, query)


class AsyncProjects(_AsyncNoun):
    async def get(self, *, project: str | None = None, wait_seconds: float | None = None) -> types.Project:
        found: types.Project = await self._in_project("GET", "", project, wait_seconds)
        return found

    async def create(
        self, name: str, *, organization: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.Project:
        """Creates a project. Only for a person's session."""
        json = {"name": name, **fields}
        created: types.Project = await self._in_organization("POST", "/projects", organization, wait_seconds, json=json)
        return created

    async def update(self, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any) -> types.Project:
        """Renames a project by ``name``. Only for a person's session."""
        updated: types.Project = await self._in_project("PATCH", "", project, wait_seconds, json=fields)
        return updated


class AsyncMembers(_AsyncNoun):
    """Members and invitations. Only for a person's session."""

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

    async def resend_invitation(
        self, id: str, *, organization: str | None = None, wait_seconds: float | None = None
    ) -> types.Invitation:
        """Sends the mail again."""
        path = f"/invitations/{id}/resend"
        invited: types.Invitation = await self._in_organization("POST", path, organization, wait_seconds)
        return invited

    async def delete_invitation(self, id: str, *, organization: str | None = None, wait_seconds: float | None = None) -> None:
        await self._in_organization("DELETE", f"/invitations/{id}", organization, wait_seconds)


class AsyncKeys(_AsyncNoun):
    """API keys. Only for a person's session."""

    def list(self, *, project: str | None = None, wait_seconds: float | None = None) -> AsyncList[types.ApiKey]:
        return self._list_in_project("/api-keys", project, wait_seconds)

    async def get(self, id: str, *, project: str | None = None, wait_seconds: float | None = None) -> types.ApiKey:
        key: types.ApiKey = await self._in_project("GET", f"/api-keys/{id}", project, wait_seconds)
        return key

    async def create(
        self, tool_permissions: Sequence[str], *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.ApiKeyCreated:
        """Creates a key. Only this answer contains the whole key."""
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

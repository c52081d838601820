# Made by tools/sync.py from berth/_async/app.py. Do not change it by hand.
"""The application API: one address, one credential."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._requests import CALL_SECONDS, OPERATION_SECONDS, PREFER_WAIT, Deadline, Request, deadline_of, wait_before
from .._version_check import check_version_once
from ..errors import BerthError, OperationError
from . import platform
from .transport import json_of, send

if TYPE_CHECKING:
    from .. import types


class App:
    def __init__(self, url: str, api_key: str, project: str | None, organization: str | None, version_check: bool) -> None:
        self.url = url
        self.client = platform.http_client()
        self._api_key = api_key
        self._project = project
        self._organization = organization
        self._version_check = version_check
        self._me: types.Principal | None = None

    def call(self, request: Request, wait_seconds: float | None = None) -> Any:
        return self.send(request, deadline_of(wait_seconds, CALL_SECONDS))

    def send(self, request: Request, deadline: Deadline) -> Any:
        answer = json_of(send(self.client, request, deadline, self._target, self._repair))
        if self._version_check:
            check_version_once(self.url)
        return answer

    def ended(self, operation_id: str, deadline: Deadline) -> types.Operation:
        """Returns when it is over, however it ended."""
        attempt = 0
        while True:
            asked = Request("GET", f"/v1/operations/{operation_id}", headers=PREFER_WAIT)
            response = send(self.client, asked, deadline, self._target, self._repair)
            operation: types.Operation = json_of(response)
            if operation["completed_at"] is not None:
                return operation
            deadline.check()
            if "preference-applied" not in response.headers:
                platform.sleep(min(wait_before(attempt, None), max(deadline.left(), 0)))
            attempt += 1

    def succeeded(self, operation: types.Operation, deadline: Deadline) -> types.Operation:
        """Returns when it has succeeded; raises an OperationError when it ended otherwise."""
        last = self.ended(operation["id"], deadline) if operation["completed_at"] is None else operation
        if last["state"] != "succeeded":
            raise OperationError(last)
        return last

    def operate(
        self, request: Request, wait: bool, wait_seconds: float | None, path: tuple[str, ...] = ()
    ) -> Any:
        """Begins an operation, which is in the answer below ``path``, and waits for it where that is asked for."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        answer = self.send(request, deadline)
        operation = answer
        for name in path:
            operation = operation[name]
        if not wait:
            return answer
        last = self.succeeded(operation, deadline)
        return answer if path else last

    def me(self) -> types.Principal:
        """Who calls. Asked once."""
        if self._me is None:
            self._me = self.call(Request("GET", "/v1/me"))
        return self._me

    def in_project(self, below: str, project: str | None) -> str:
        id = self.project_id(project)
        return f"/v1/projects/{id}{below}"

    def project_id(self, project: str | None) -> str:
        found = project or self._project
        if found is None:
            key = (self.me())["api_key"]
            found = None if key is None else key["project_id"]
        return _known(found, "project")

    def in_organization(self, below: str, organization: str | None) -> str:
        found = organization or self._organization
        if found is None:
            me = self.me()
            key, memberships = me["api_key"], me["memberships"]
            found = key["organization_id"] if key is not None else memberships[0]["organization_id"] if memberships else None
        return f"/v1/organizations/{_known(found, 'organization')}{below}"

    def _target(self, _deadline: Deadline) -> tuple[str, str]:
        return self.url, self._api_key

    def _repair(self, error: BerthError, deadline: Deadline) -> bool:
        """A refusal that names an operation is over when that operation is."""
        if error.status != 409 or error.operation_id is None or not error.retryable:
            return False
        self.ended(error.operation_id, deadline)
        return True


def _known(id: str | None, what: str) -> str:
    if id is None:
        raise TypeError(f"A person's session belongs to no {what} alone: give `{what}` to the constructor")
    return id

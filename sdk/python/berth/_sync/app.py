# Made by tools/sync.py from berth/_async/app.py. Do not change it by hand.
"""The application API: one address, one credential."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._requests import CALL_SECONDS, OPERATION_SECONDS, PREFER_WAIT, Deadline, Request, deadline_of, wait_before
from .._version_check import check_version_once
from .._waiting import Contact, Wait, capacity_notice
from ..errors import BerthError, DeadlineError, OperationError
from . import platform
from .transport import json_of, send

if TYPE_CHECKING:
    from .. import types


class App:
    def __init__(self, url: str, api_key: str, project: str | None, organization: str | None, version_check: bool) -> None:
        self.url = url
        self.client = platform.http_client()
        #: Shared by the tools of all workspaces, which the same service answers.
        self.contact = Contact()
        self._api_key = api_key
        self._project = project
        self._organization = organization
        self._version_check = version_check
        self._me: types.Principal | None = None

    def call(self, request: Request, wait_seconds: float | None = None) -> Any:
        return self.send(request, deadline_of(wait_seconds, CALL_SECONDS))

    def send(self, request: Request, deadline: Deadline) -> Any:
        answer = json_of(send(self.client, request, deadline, self._target, self._repair, self.contact))
        if self._version_check:
            check_version_once(self.url)
        return answer

    def ended(self, operation_id: str, deadline: Deadline, seen: types.Operation | None = None) -> types.Operation:
        """Waits until the operation has completed, with any result. ``seen``: the operation as last read by the caller."""
        try:
            return self._ended(operation_id, deadline, seen)
        except DeadlineError as error:
            message = f"The time for this call is over; operation {operation_id} goes on: wait_for_operation waits for it"
            raise DeadlineError(message, operation_id=operation_id) from error

    def _ended(self, operation_id: str, deadline: Deadline, seen: types.Operation | None) -> types.Operation:
        attempt = 0
        waiting = Wait(began_before=seen is not None)
        waiting.because(seen and capacity_notice(seen))
        while True:
            asked = Request("GET", f"/v1/operations/{operation_id}", headers=PREFER_WAIT)
            response = send(self.client, asked, deadline, self._target, self._repair, self.contact)
            operation: types.Operation = json_of(response)
            if operation["completed_at"] is not None:
                return operation
            waiting.because(capacity_notice(operation))
            deadline.check()
            if "preference-applied" not in response.headers:
                platform.sleep(min(wait_before(attempt, None), max(deadline.left(), 0)))
            attempt += 1

    def succeeded(self, operation: types.Operation, deadline: Deadline) -> types.Operation:
        """Waits until the operation has succeeded; raises an OperationError when it ended otherwise."""
        last = self.ended(operation["id"], deadline, operation) if operation["completed_at"] is None else operation
        if last["state"] != "succeeded":
            raise OperationError(last)
        return last

    def operate(
        self, request: Request, wait: bool, wait_seconds: float | None, path: tuple[str, ...] = ()
    ) -> Any:
        """Starts an operation, found in the answer under ``path``, and waits for it on request."""
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
        """The caller's identity, requested once."""
        if self._me is None:
            self._me = self.call(Request("GET", "/v1/me"))
        return self._me

    def in_project(self, below: str, project: str | None) -> str:
        id = self.project_id(project)
        return f"/v1/projects/{id}{below}"

    def project_id(self, project: str | None) -> str:
        found = project or self._project
        if found is not None:
            return found
        key = (self.me())["api_key"]
        if key is not None:
            return key["project_id"]
        path = self.in_organization("/projects", None)
        projects = (self.call(Request("GET", path, query={"limit": _CHOICES_MAX})))["data"]
        return _only_one([(each["id"], each["name"]) for each in projects], "project")

    def persons_project_id(self) -> str | None:
        """The project for a person's session, whose calls must name one. None: the credential is a project's own key."""
        if self._project is None and not self._api_key.startswith("sfu_"):
            return None
        return self.project_id(None)

    def in_organization(self, below: str, organization: str | None) -> str:
        found = organization or self._organization
        if found is None:
            me = self.me()
            key = me["api_key"]
            choices = [(each["organization_id"], each["organization_name"]) for each in me["memberships"]]
            found = _only_one(choices, "organization") if key is None else key["organization_id"]
        return f"/v1/organizations/{found}{below}"

    def _target(self, _deadline: Deadline) -> tuple[str, str]:
        return self.url, self._api_key

    def _repair(self, error: BerthError, deadline: Deadline) -> bool:
        """Waits for the operation that a refusal names; then the request may be repeated."""
        if error.status != 409 or error.operation_id is None or not error.retryable:
            return False
        self.ended(error.operation_id, deadline)
        return True


_CHOICES_MAX = 10


def _only_one(choices: list[tuple[str, str]], noun: str) -> str:
    """Returns the only choice. Raises where there are several: the client picks none by itself."""
    if not choices:
        raise TypeError(f"This person's session has no {noun}")
    if len(choices) == 1:
        return choices[0][0]
    named = ", ".join(f"{name} ({id})" for id, name in choices[:_CHOICES_MAX])
    raise TypeError(f"Say which {noun} is meant: set BERTH_{noun.upper()}, or give `{noun}` to the constructor. There are {named}")

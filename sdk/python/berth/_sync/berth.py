# Made by tools/sync.py from berth/_async/berth.py. Do not change it by hand.
"""A client of one service, with one credential."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .._requests import OPERATION_SECONDS, PREFER_SHORT_WAIT, Deadline, Request, caps_of, deadline_of, given, unheeded_notice
from .._waiting import LOG
from ..errors import BerthError, DeadlineError
from .app import App
from .gateway import Manner
from .list import List, list_of
from .nouns import Egress, Keys, Members, Organizations, Projects, Secrets, Usage, Volumes
from .templates import Templates
from .workspace import Workspace

if TYPE_CHECKING:
    from .. import types


class Berth:
    """``url`` and ``api_key`` default to BERTH_URL and BERTH_API_KEY.

    ``project`` and ``organization``: for a person's session, those of calls that name none. Default: BERTH_PROJECT and
    BERTH_ORGANIZATION, else the person's only one. The logger ``berth`` warns of long waits, and of options that an open ignores.

    ``version_check=False``, or BERTH_NO_VERSION_CHECK: do not check whether the service supports this version.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        project: str | None = None,
        organization: str | None = None,
        version_check: bool = True,
    ) -> None:
        self.url = (url or os.environ.get("BERTH_URL") or "http://127.0.0.1:8080").rstrip("/")
        if not re.match(r"https?://", self.url):
            raise ValueError("The address of the service begins with http:// or https://")
        key = (api_key or os.environ.get("BERTH_API_KEY") or "").strip()
        if not key:
            raise TypeError("An API key is needed: give `api_key`, or set BERTH_API_KEY")
        # httpx would include the invalid header's value in its error.
        if not re.fullmatch(r"[\x21-\x7e]+", key):
            raise ValueError("The API key has characters that no key has")
        self._app = app = App(
            self.url,
            key,
            project or os.environ.get("BERTH_PROJECT") or None,
            organization or os.environ.get("BERTH_ORGANIZATION") or None,
            version_check,
        )
        self.secrets = Secrets(app)
        self.volumes = Volumes(app)
        self.egress = Egress(app)
        self.templates = Templates(app)
        self.usage = Usage(app)
        self.organizations = Organizations(app)
        self.projects = Projects(app)
        self.members = Members(app)
        self.keys = Keys(app)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(url={self.url!r})"

    def open(
        self,
        key: str,
        *,
        template: str | None = None,
        caps: Mapping[str, Any] | None = None,
        cpu_millis: int | None = None,
        memory_mib: int | None = None,
        disk_gib: int | None = None,
        project_id: str | None = None,
        agent_label: str | None = None,
        tools: Sequence[str] | None = None,
        secrets: Sequence[str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        lifetime: str | None = None,
        idle_policy: str | None = None,
        background_seconds: int | None = None,
        mode: str | None = None,
        wake: bool = True,
        wait_seconds: float | None = None,
    ) -> Workspace:
        """Opens a workspace by key: creates it on first use, else finds, resumes or restarts it. Returns when it is ready.

        ``template``: of a new workspace; None: ``base``. Sizes are those of ``caps``. ``wake``: whether calls resume the workspace when
        it is suspended.
        """
        caps = caps_of(caps, cpu_millis, memory_mib, disk_gib)
        project_id = project_id or self._app.persons_project_id()
        asked = given(key=key, template=template or "base", caps=caps, project_id=project_id, agent_label=agent_label, tools=tools)
        asked |= given(secrets=secrets, inputs=inputs, lifetime=lifetime, idle_policy=idle_policy, mode=mode)
        asked |= given(background_seconds=background_seconds)
        answer = self._opened(asked, deadline_of(wait_seconds, OPERATION_SECONDS))
        unheeded = [name for name in answer.get("ignored", []) if name != "template" or template is not None]
        if unheeded:
            LOG.warning("%s", unheeded_notice(key, unheeded, answer["workspace"]["ceilings"]))
        manner = Manner(open=asked, grant=given(agent_label=agent_label, tools=tools), wake=wake)
        return Workspace(self._app, answer["workspace"], manner, answer["tool_token"])

    def workspace(self, id: str, *, wake: bool = True, wait_seconds: float | None = None) -> Workspace:
        """Returns an existing workspace by id, without resuming it."""
        view = self._app.call(Request("GET", f"/v1/workspaces/{id}"), wait_seconds)
        return Workspace(self._app, view, Manner(wake=wake), None)

    def find(self, key: str, *, wake: bool = True, wait_seconds: float | None = None) -> Workspace | None:
        """Returns an existing workspace by key; None: there is none."""
        for view in self.workspaces(key_prefix=key, lifetime="any", purpose="any", wait_seconds=wait_seconds):
            if view["key"] == key:
                return Workspace(self._app, view, Manner(wake=wake), None)
        return None

    def workspaces(self, *, wait_seconds: float | None = None, **query: Any) -> List[types.Workspace]:
        """Lists workspaces. ``query``: ``key_prefix``, ``state``, ``lifetime`` and the other parameters of the route."""
        return list_of(self._app.call, "/v1/workspaces", query, wait_seconds)

    def operation(self, id: str, *, wait_seconds: float | None = None) -> types.Operation:
        found: types.Operation = self._app.call(Request("GET", f"/v1/operations/{id}"), wait_seconds)
        return found

    def wait_for_operation(self, id: str, *, wait_seconds: float | None = None) -> types.Operation:
        """Returns when the operation has completed, with any result."""
        return self._app.ended(id, deadline_of(wait_seconds, OPERATION_SECONDS))

    def me(self) -> types.Principal:
        return self._app.me()

    def client_versions(self, *, wait_seconds: float | None = None) -> types.ClientVersions:
        found: types.ClientVersions = self._app.call(Request("GET", "/v1/client-versions"), wait_seconds)
        return found

    def feedback(
        self, message: str, *, category: str | None = None, context: Mapping[str, str] | None = None, wait_seconds: float | None = None
    ) -> types.Feedback:
        """Sends feedback to the operators of the service."""
        json = given(message=message, category=category, context=context)
        told: types.Feedback = self._app.call(Request("POST", "/v1/feedback", json=json, repeats="keyed"), wait_seconds)
        return told

    def api(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        key: bool | str = False,
        wait_seconds: float | None = None,
    ) -> Any:
        """Calls any route of the application API. Retries a change only with ``key``, which the routes so marked in the reference
        accept."""
        asked = Request(method, path, query=query or {}, json=json, headers=headers or {}, key=key)
        return self._app.call(asked, wait_seconds)

    def close(self) -> None:
        """Closes the connections. Workspaces stay as they are."""
        self._app.client.close()

    def __enter__(self) -> Berth:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self, json: Mapping[str, Any], deadline: Deadline) -> Any:
        while True:
            asked = Request("POST", "/v1/workspaces/open", json=json, headers=PREFER_SHORT_WAIT, key=True)
            try:
                answer = self._app.send(asked, deadline)
            except DeadlineError as error:
                if error.operation_id is not None:
                    raise
                # The open may have started without an answer: the key finds it.
                message = f"The time for this call is over; the open of {json['key']} may go on: open the same key again"
                raise DeadlineError(message) from error
            operation = answer["operation"]
            is_over = operation is None or operation["state"] == "succeeded"
            if is_over and (answer["tool_token"] is not None or answer["workspace"]["ready"]):
                return answer
            if operation is None:
                raise BerthError("The workspace is not ready, and nothing says why", code="not_ready", retryable=True)
            self._app.succeeded(operation, deadline)

# Made by tools/sync.py from berth/_async/workspace.py. Do not change it by hand.
"""One workspace: its tools and its lifecycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from .._requests import OPERATION_SECONDS, Request, caps_of, deadline_of, given, guest_path, if_match_of
from .._results import CommandResult
from .app import App
from .exec import Command, OnOutput, run_command, start_command
from .files import Files
from .gateway import Gateway, Manner
from .list import List, list_of
from .ports import Ports
from .shell import Terminal, open_terminal
from .tools import Browser, Changes, Git, Idle, Processes, Tree

if TYPE_CHECKING:
    from .. import types


class Workspace:
    """Calls that start an operation wait for it; with ``wait=False`` they return when it is accepted.

    ``wait_seconds`` is the total wait over all retries. Default: 120 seconds for a call, 16 minutes for an operation, no limit for
    output.
    """

    def __init__(self, app: App, view: types.Workspace, manner: Manner, token: Mapping[str, Any] | None) -> None:
        gateway = Gateway(app, view, manner, token)
        self.id: str = view["id"]
        self._app = app
        self._gateway = gateway
        self.files = Files(gateway)
        self.git = Git(gateway)
        self.browser = Browser(gateway)
        self.processes = Processes(gateway)
        self.changes = Changes(gateway)
        self.tree = Tree(gateway)
        self.idle = Idle(gateway)
        self.ports = Ports(app, self.id)
        self.secrets = BoundSecrets(self)
        self.egress = OwnEgress(self)
        self.volumes = AttachedVolumes(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id!r}, key={self.key!r})"

    @property
    def key(self) -> str:
        key: str = self.view["key"]
        return key

    @property
    def view(self) -> types.Workspace:
        """The view as last read; ``refresh`` reads it again."""
        return self._gateway.view

    def refresh(self, *, wait_seconds: float | None = None) -> types.Workspace:
        return self._gateway.refresh(wait_seconds)

    def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: str | bytes | None = None,
        timeout_ms: int | None = None,
        kill_grace_ms: int | None = None,
        secret_refs: Sequence[str] | None = None,
        session_id: str | None = None,
        execution_id: str | None = None,
        output_limit_bytes: int | None = None,
        check: bool | None = None,
        on_output: OnOutput | None = None,
        wait_seconds: float | None = None,
    ) -> CommandResult:
        """Runs a command and waits for its end: a program with arguments, or a line for ``bash -lc``.

        ``stdin``: at most 1 MiB; standard input closes after it. ``check``: True raises a CommandError unless the exit code is 0; False
        never; None only where the command could not start. ``on_output`` is called with output as it arrives.

        Only a cancelled task, or Ctrl-C with threads, cancels the command, within two seconds. It continues after ``wait_seconds``, a
        lost connection or the end of the program. To leave a command running, use ``start``. A command of a file-first workspace cannot
        be cancelled.
        """
        fields = _command(cwd, env, user, timeout_ms, kill_grace_ms, secret_refs, session_id)
        fields = {**fields, "execution_id": execution_id, "output_limit_bytes": output_limit_bytes}
        return run_command(self._gateway, command, fields, stdin, check, on_output, wait_seconds)

    def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: str | bytes | None = None,
        stdin_open: bool | None = None,
        timeout_ms: int | None = None,
        kill_grace_ms: int | None = None,
        secret_refs: Sequence[str] | None = None,
        session_id: str | None = None,
        wait_seconds: float | None = None,
    ) -> Command:
        """Starts a command that keeps running after the call, the task, the connection and the program end.

        ``stdin_open``: keeps standard input open for ``write``, until ``end``.
        """
        fields = _command(cwd, env, user, timeout_ms, kill_grace_ms, secret_refs, session_id)
        fields = {**fields, "stdin_open": stdin_open}
        return start_command(self._gateway, command, fields, stdin, wait_seconds)

    def command(self, session_id: str) -> Command:
        """Returns a command that was started before, by id."""
        return Command(self._gateway, session_id)

    def commands(
        self, *, state: Literal["running", "ended"] | None = None, limit: int | None = None, wait_seconds: float | None = None
    ) -> List[types.ListedCommand]:
        """Lists commands, newest first: running ones, and the last 10,000 that ended. ``state`` selects some of them.

        ``ws.command(id)`` returns one. A file-first workspace has ``ws.executions`` instead.
        """
        return list_of(self._gateway.call, "/exec", {"state": state, "limit": limit}, wait_seconds)

    def executions(
        self, *, state: Literal["running", "ended"] | None = None, limit: int | None = None, wait_seconds: float | None = None
    ) -> List[types.ListedExecution]:
        """Lists the commands of a file-first workspace of the last seven days, newest first."""
        return list_of(self._gateway.call, "/executions", {"state": state, "limit": limit}, wait_seconds)

    def terminals(
        self, *, state: Literal["running", "ended"] | None = None, limit: int | None = None, wait_seconds: float | None = None
    ) -> List[types.ListedTerminal]:
        """Lists terminals, newest first: open ones, and the last 1,000 that ended."""
        return list_of(self._gateway.call, "/pty", {"state": state, "limit": limit}, wait_seconds)

    def execution(self, execution_id: str, *, wait_seconds: float | None = None) -> types.Execution:
        """Returns a command of a file-first workspace by ``execution_id``. Records are kept for seven days."""
        asked = Request("GET", f"/executions/{quote(execution_id, safe='')}")
        found: types.Execution = self._gateway.call(asked, wait_seconds)
        return found

    def shell(
        self,
        argv: Sequence[str] | None = None,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cols: int | None = None,
        rows: int | None = None,
        secret_refs: Sequence[str] | None = None,
        session_id: str | None = None,
        offset: int = 0,
        wait_seconds: float | None = None,
    ) -> Terminal:
        """Opens a terminal, or reconnects to the one with this ``session_id``."""
        fields = {"argv": argv, "cwd": None if cwd is None else guest_path(cwd), "env": env, "user": user, "cols": cols, "rows": rows}
        fields = {**fields, "secret_refs": secret_refs, "session_id": session_id}
        return open_terminal(self._gateway, fields, offset, wait_seconds)

    def terminal(self, session_id: str, *, offset: int = 0) -> Terminal:
        """Returns a terminal that was opened before."""
        return Terminal(self._gateway, session_id, offset)

    def suspend(self, *, wait: bool = True, wait_seconds: float | None = None) -> types.Operation:
        return self._operate("POST", "/suspend", wait, wait_seconds)

    def resume(self, *, wait_seconds: float | None = None) -> types.Workspace:
        """Resumes the workspace. Calls on it do so by themselves."""
        self._gateway.wake(deadline_of(wait_seconds, OPERATION_SECONDS))
        return self._gateway.view

    def suspend_when_idle(self, after_seconds: int, *, wait_seconds: float | None = None) -> types.SuspendWhenIdleResponse:
        answer: types.SuspendWhenIdleResponse = self._call(
            "POST", "/suspend-when-idle", wait_seconds, json={"after_seconds": after_seconds}, key=True
        )
        return answer

    def cancel_suspend_when_idle(self, *, wait_seconds: float | None = None) -> types.Workspace:
        view: types.Workspace = self._call("DELETE", "/suspend-when-idle", wait_seconds, repeats="keyed")
        return view

    def set_idle_policy(self, idle_policy: str | None, *, wait_seconds: float | None = None) -> types.Workspace:
        """Sets ``adaptive``, ``never`` or ``fixed:<seconds>``; None: the template's policy."""
        view: types.Workspace = self._call("PUT", "/idle-policy", wait_seconds, json={"idle_policy": idle_policy})
        return view

    def snapshot(
        self, *, label: str | None = None, wait: bool = True, wait_seconds: float | None = None
    ) -> types.Operation:
        """Saves memory and disk in a checkpoint, named by ``result["checkpoint_id"]``."""
        return self._operate("POST", "/snapshot", wait, wait_seconds, given(label=label))

    def checkpoints(self, *, wait_seconds: float | None = None) -> List[types.Checkpoint]:
        return list_of(self._app.call, f"{self._path}/checkpoints", None, wait_seconds)

    def delete_checkpoint(self, checkpoint_id: str, *, wait_seconds: float | None = None) -> None:
        self._call("DELETE", f"/checkpoints/{checkpoint_id}", wait_seconds)

    def restore(
        self,
        checkpoint_id: str,
        *,
        memory: bool | None = None,
        wait: bool = True,
        wait_seconds: float | None = None,
    ) -> types.Operation:
        """Goes back to a checkpoint. `memory=False` starts from its disk alone, as after a loss of power: for a guest that hangs."""
        json = {"checkpoint_id": checkpoint_id, **given(memory=memory)}
        return self._operate("POST", "/restore", wait, wait_seconds, json)

    def adopt(
        self,
        fork: Workspace | str,
        *,
        delete_fork: bool | None = None,
        wait: bool = True,
        wait_seconds: float | None = None,
    ) -> types.Operation:
        """Continues from the memory and disk of a fork or another relative, under this workspace's key.

        Its earlier state is kept for seven days as `result["recovery_checkpoint_id"]`.
        """
        fork_workspace_id = fork if isinstance(fork, str) else fork.id
        json = {"fork_workspace_id": fork_workspace_id, **given(delete_fork=delete_fork)}
        return self._operate("POST", "/adopt", wait, wait_seconds, json)

    def fork(
        self,
        key: str,
        *,
        caps: Mapping[str, Any] | None = None,
        cpu_millis: int | None = None,
        memory_mib: int | None = None,
        disk_gib: int | None = None,
        lifetime: str | None = None,
        wait_seconds: float | None = None,
    ) -> Workspace:
        """Copies the workspace under another key, with its files; a running one also with its memory and processes."""
        deadline = deadline_of(wait_seconds, OPERATION_SECONDS)
        if self.view["mode"] == "file_first":
            answer = self._call("POST", "/tree/fork", wait_seconds, json={"key": key}, key=True)
            return self._other(answer["workspace"])
        json = {"key": key, **given(caps=caps_of(caps, cpu_millis, memory_mib, disk_gib), lifetime=lifetime)}
        answer = self._call("POST", "/fork", wait_seconds, json=json, key=True)
        self._app.succeeded(answer["operation"], deadline)
        fork = self._other(answer["workspace"])
        fork.refresh(wait_seconds=wait_seconds)
        return fork

    def save_as_template(
        self, template_slug: str, *, wait_seconds: float | None = None, **fields: Any
    ) -> types.TemplateBuild:
        """Starts a build of a template version from this workspace's files. ``berth.templates.wait_for_build`` waits for it. ``fields``:
        ``display_name``, ``checkpoint_id``, ``auto_publish`` and the others of the route."""
        json = {"template_slug": template_slug, **fields}
        answer: types.SaveAsTemplateResponse = self._call("POST", "/save-as-template", wait_seconds, json=json, key=True)
        return answer["build"]

    def reset(self, *, wait: bool = True, wait_seconds: float | None = None) -> types.Operation:
        """Deletes every change since the template."""
        return self._operate("POST", "/reset", wait, wait_seconds, {"confirm_destructive": True})

    def close(self, *, wait: bool = True, wait_seconds: float | None = None) -> types.Operation:
        """Ends a session workspace."""
        return self._operate("POST", "/close", wait, wait_seconds)

    def delete(self, *, wait: bool = True, wait_seconds: float | None = None) -> types.Operation:
        return self._operate("DELETE", "", wait, wait_seconds)

    def operations(
        self, *, state: str | None = None, kind: str | None = None, wait_seconds: float | None = None
    ) -> List[types.Operation]:
        return list_of(self._app.call, f"{self._path}/operations", {"state": state, "kind": kind}, wait_seconds)

    def agent_sessions(self, *, wait_seconds: float | None = None) -> List[types.AgentSession]:
        """Lists the agent sessions that used the workspace, by ``agent_label``."""
        return list_of(self._app.call, f"{self._path}/agent-sessions", None, wait_seconds)

    def inputs(self, *, wait_seconds: float | None = None) -> types.WorkspaceInputs:
        answer: types.WorkspaceInputs = self._call("GET", "/inputs", wait_seconds)
        return answer

    def usage(self, query: Mapping[str, Any] | None = None, *, wait_seconds: float | None = None) -> types.UsageSeries:
        answer: types.UsageSeries = self._call("GET", "/usage", wait_seconds, query=query or {})
        return answer

    def __enter__(self) -> Workspace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes a session workspace. A persistent one stays as it is."""
        if self.view["lifetime"] == "session" and self.view["observed_state"] != "deleted":
            self.close(wait=False)

    @property
    def _path(self) -> str:
        return f"/v1/workspaces/{self.id}"

    def _call(self, method: str, below: str, wait_seconds: float | None, **request: Any) -> Any:
        return self._app.call(Request(method, f"{self._path}{below}", **request), wait_seconds)

    def _operate(self, method: str, below: str, wait: bool, wait_seconds: float | None, json: Any = None) -> types.Operation:
        asked = Request(method, f"{self._path}{below}", json=json, key=True)
        operation: types.Operation = self._app.operate(asked, wait, wait_seconds)
        return operation

    def _other(self, view: types.Workspace) -> Workspace:
        return Workspace(self._app, view, replace(self._gateway.manner, open=None), None)


def _command(
    cwd: str | None,
    env: Mapping[str, str] | None,
    user: str | None,
    timeout_ms: int | None,
    kill_grace_ms: int | None,
    secret_refs: Sequence[str] | None,
    session_id: str | None,
) -> dict[str, Any]:
    fields: dict[str, Any] = {"cwd": None if cwd is None else guest_path(cwd), "env": env, "user": user, "timeout_ms": timeout_ms, "kill_grace_ms": kill_grace_ms}
    return {**fields, "secret_refs": secret_refs, "session_id": session_id}


class BoundSecrets:
    """Names of the secrets that are bound to the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._call = workspace._call

    def get(self, *, wait_seconds: float | None = None) -> types.WorkspaceSecrets:
        bound: types.WorkspaceSecrets = self._call("GET", "/secrets", wait_seconds)
        return bound

    def set(self, names: Sequence[str], *, wait_seconds: float | None = None) -> types.WorkspaceSecrets:
        bound: types.WorkspaceSecrets = self._call("PUT", "/secrets", wait_seconds, json={"names": list(names)})
        return bound


class OwnEgress:
    """Egress policy of the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._call = workspace._call

    def get(self, *, wait_seconds: float | None = None) -> types.WorkspaceEgressPolicy:
        policy: types.WorkspaceEgressPolicy = self._call("GET", "/egress-policy", wait_seconds)
        return policy

    def set(
        self, mode: str, *, if_match: int | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> types.WorkspaceEgressPolicy:
        json = {"mode": mode, **fields}
        policy: types.WorkspaceEgressPolicy = self._call("PUT", "/egress-policy", wait_seconds, json=json, headers=if_match_of(if_match))
        return policy

    def clear(self, *, if_match: int | None = None, wait_seconds: float | None = None) -> None:
        self._call("DELETE", "/egress-policy", wait_seconds, headers=if_match_of(if_match))

    def versions(self, *, wait_seconds: float | None = None) -> List[types.EgressVersion]:
        return list_of(self._workspace._app.call, f"{self._workspace._path}/egress-policy/versions", None, wait_seconds)

    def denials(self, *, wait_seconds: float | None = None) -> types.EgressDenialList:
        denials: types.EgressDenialList = self._call("GET", "/egress-policy/denials", wait_seconds)
        return denials


class AttachedVolumes:
    """Volumes that are attached to the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def list(self, *, wait_seconds: float | None = None) -> List[types.VolumeAttachment]:
        return list_of(self._workspace._app.call, f"{self._workspace._path}/volumes", None, wait_seconds)

    def attach(
        self,
        volume: types.Volume | Mapping[str, Any] | str,
        mount_path: str,
        *,
        mode: str | None = None,
        wait: bool = True,
        wait_seconds: float | None = None,
    ) -> types.VolumeAttachmentAndOperation:
        volume_id = volume if isinstance(volume, str) else volume["id"]
        json = {"volume_id": volume_id, "mount_path": mount_path, **given(mode=mode)}
        return self._operate(Request("POST", f"{self._workspace._path}/volumes", json=json, key=True), wait, wait_seconds)

    def detach(
        self, volume_id: str, *, wait: bool = True, wait_seconds: float | None = None
    ) -> types.VolumeAttachmentAndOperation:
        return self._operate(Request("DELETE", f"{self._workspace._path}/volumes/{volume_id}", key=True), wait, wait_seconds)

    def _operate(self, asked: Request, wait: bool, wait_seconds: float | None) -> types.VolumeAttachmentAndOperation:
        answer: types.VolumeAttachmentAndOperation = self._workspace._app.operate(asked, wait, wait_seconds, ("operation",))
        return answer

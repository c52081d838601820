"""A workspace as a sandbox of Inspect: ``sandbox="berth"``, or ``("berth", "TEMPLATE")``."""

from __future__ import annotations

import signal
import uuid
from pathlib import PurePosixPath
from typing import Literal, overload

from berth import AsyncBerth, AsyncWorkspace, CommandResult
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    sandboxenv,
)

HOME = "/home/user"
#: Permission checks that run as the agent's user before the files API transfers a file: the API itself has more rights.
READ = 'set -e; [ ! -d "$1" ] || exit 21; [ -e "$1" ] || exit 2; [ -r "$1" ] || exit 13; exec stat -L -c %s -- "$1"'
WRITE = 'set -e; [ ! -d "$1" ] || exit 21; mkdir -p -- "$(dirname -- "$1")"; [ ! -e "$1" ] && [ -w "$(dirname -- "$1")" ] || [ -w "$1" ] || exit 13'
ERRORS = {
    2: (FileNotFoundError, "No such file"),
    13: (PermissionError, "Permission denied"),
    21: (IsADirectoryError, "Is a directory"),
}
#: Limits of one request. Larger input goes through a file, which is deleted before the command starts.
STDIN_BYTES_MAX = 1 << 20
ARGV_BYTES_MAX = 100_000
FROM_FILE = 'exec < "$0" && rm -f "$0" && exec "$@"'
ARGV_FROM_FILE = "import os, sys; a = open(sys.argv[1], 'rb').read().split(b'\\0'); os.unlink(sys.argv[1]); os.execvp(a[0], a)"


@sandboxenv(name="berth")
class BerthSandboxEnvironment(SandboxEnvironment):
    def __init__(self, berth: AsyncBerth, workspace: AsyncWorkspace) -> None:
        super().__init__()
        self.berth = berth
        self.workspace = workspace

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        berth = AsyncBerth()
        key = f"inspect-{uuid.uuid4()}"
        workspace = await berth.open(key, template=config if isinstance(config, str) else "base", lifetime="session")
        return {"default": cls(berth, workspace)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            mine = environment.as_type(cls)
            await mine.workspace.close()
            await mine.berth.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        stdin = input.encode() if isinstance(input, str) else input
        if sum(len(word.encode()) + 1 for word in cmd) > ARGV_BYTES_MAX:
            cmd = ["python3", "-c", ARGV_FROM_FILE, await self._kept("\0".join(cmd).encode())]
        if stdin is not None and len(stdin) > STDIN_BYTES_MAX:
            cmd, stdin = ["sh", "-c", FROM_FILE, await self._kept(stdin), *cmd], None
        result = await self.workspace.exec(
            cmd,
            cwd=_absolute(cwd or HOME),
            env=env,
            user=user,
            stdin=stdin,
            timeout_ms=None if timeout is None else timeout * 1000,
            check=False,
        )
        if result.timed_out:
            raise TimeoutError(f"The command took more than {timeout} seconds")
        if result.state == "failed_to_start" and "permission" in (result.error or "").lower():
            raise PermissionError(result.error)
        stderr = result.stderr if result.error is None else f"{result.stderr}{result.error}\n"
        return ExecResult(success=result.ok, returncode=_code(result), stdout=result.stdout, stderr=stderr)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        path = _absolute(file)
        await self._checked(WRITE, path)
        await self.workspace.files.write(path, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        path = _absolute(file)
        size = int(await self._checked(READ, path))
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        if size > limit:
            raise OutputLimitExceededError(limit_str=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, truncated_output=None)
        content = b"".join([piece async for piece in self.workspace.files.stream(path)])
        return content.decode() if text else content

    async def _kept(self, content: bytes) -> str:
        path = f"/tmp/.inspect-{uuid.uuid4()}"
        await self.workspace.files.write(path, content, mode="0600")
        return path

    async def _checked(self, script: str, path: str) -> str:
        result = await self.workspace.exec(["sh", "-c", script, "sh", path], cwd=HOME)
        if result.exit_code in ERRORS:
            kind, why = ERRORS[result.exit_code]
            raise kind(f"{why}: {path}")
        if not result.ok:
            raise PermissionError(result.stderr.strip() or path)
        return result.stdout


def _code(result: CommandResult) -> int:
    """Exit code as shells report it."""
    if result.state == "failed_to_start":
        return 127
    if result.term_signal is not None:
        return 128 + int(getattr(signal, result.term_signal, 0))
    return -1 if result.exit_code is None else result.exit_code


def _absolute(path: str) -> str:
    return str(PurePosixPath(HOME) / path)

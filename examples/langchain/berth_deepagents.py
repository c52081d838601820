"""A workspace as the sandbox of a LangChain deep agent."""

from __future__ import annotations

from berth import BerthError, Workspace
from deepagents.backends.protocol import ExecuteResponse, FileDownloadResponse, FileUploadResponse
from deepagents.backends.sandbox import BaseSandbox

OUTPUT_BYTES_MAX = 4 << 20
TIMEOUT_SECONDS = 30 * 60
ERRORS = {
    "path_not_found": "file_not_found",
    "is_a_directory": "is_directory",
    "not_a_file": "is_directory",
    "not_a_directory": "invalid_path",
}
#: Prints the paths that the agent's user may not read, although the files API may.
UNREADABLE = 'for each; do [ ! -e "$each" ] || [ -r "$each" ] || printf "%s\\0" "$each"; done'


class BerthSandbox(BaseSandbox):
    """``BaseSandbox`` builds ``ls``, ``read``, ``edit``, ``grep`` and ``glob`` from these methods."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @property
    def id(self) -> str:
        return self._workspace.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        seconds = TIMEOUT_SECONDS if timeout is None or timeout <= 0 else timeout
        result = self._workspace.exec(["bash", "-c", command], timeout_ms=seconds * 1000)
        output = result.stdout_bytes + (b"\n" if result.stdout_bytes and result.stderr_bytes else b"") + result.stderr_bytes
        text = output[:OUTPUT_BYTES_MAX].decode(errors="replace")
        return ExecuteResponse(
            output=text,
            exit_code=124 if result.timed_out else result.exit_code,
            truncated=len(output) > OUTPUT_BYTES_MAX,
        )

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path=path, error=self._upload(path, content)) for path, content in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        absolute = [path for path in paths if path.startswith("/")]
        denied = set(self._workspace.exec(["sh", "-c", UNREADABLE, "sh", *absolute]).stdout.split("\0"))
        return [self._download(path, path in denied) for path in paths]

    def _upload(self, path: str, content: bytes) -> str | None:
        if not path.startswith("/"):
            return "invalid_path"
        try:
            self._workspace.files.write(path, content, create_parents=True)
        except BerthError as error:
            return _named(error)
        return None

    def _download(self, path: str, is_denied: bool) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path=path, error="invalid_path")
        if is_denied:
            return FileDownloadResponse(path=path, error="permission_denied")
        try:
            return FileDownloadResponse(path=path, content=self._workspace.files.read(path))
        except BerthError as error:
            return FileDownloadResponse(path=path, error=_named(error))


def _named(error: BerthError) -> str:
    return ERRORS.get(error.reason or "", "permission_denied" if error.code == "forbidden" else error.message)

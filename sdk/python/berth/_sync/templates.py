# Made by tools/sync.py from berth/_async/templates.py. Do not change it by hand.
"""Templates, their versions, builds and drafts. ``fields`` are those of the route, as the reference spells them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .._requests import PREFER_WAIT, TRANSFER_SECONDS, Deadline, Request, deadline_of, may_repeat, wait_before
from .._source import Source
from ..errors import BerthError, DeadlineError
from . import platform
from .app import App
from .drafts import Drafts, started
from .list import List, list_of
from .nouns import _Noun
from .workspace import Workspace

if TYPE_CHECKING:
    from .. import types

#: Size of an upload's part. The API accepts 64 MiB, but a broken part is sent again as a whole.
_PART_BYTES = 8 << 20
#: A build may take three hours.
_BUILD_SECONDS = 4 * 3600.0
_LOG_SECONDS = 0.5


class Templates(_Noun):
    def __init__(self, app: App) -> None:
        super().__init__(app)
        #: The next version of a template, edited in a workspace.
        self.drafts = Drafts(app)

    def list(self, *, wait_seconds: float | None = None) -> List[types.Template]:
        return list_of(self._app.call, "/v1/templates", None, wait_seconds)

    def get(self, slug: str, *, wait_seconds: float | None = None) -> types.Template:
        template: types.Template = self._app.call(Request("GET", _template(slug)), wait_seconds)
        return template

    def versions(self, slug: str, *, wait_seconds: float | None = None) -> List[types.TemplateVersion]:
        return list_of(self._app.call, f"{_template(slug)}/versions", None, wait_seconds)

    def version(self, slug: str, version: int, *, wait_seconds: float | None = None) -> types.TemplateVersion:
        found: types.TemplateVersion = self._app.call(Request("GET", f"{_template(slug)}/versions/{version}"), wait_seconds)
        return found

    def publish(self, slug: str, version: int, *, wait_seconds: float | None = None) -> types.TemplateVersion:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/publish", json={})
        published: types.TemplateVersion = self._app.call(asked, wait_seconds)
        return published

    def archive(self, slug: str, version: int, *, wait_seconds: float | None = None) -> types.TemplateVersion:
        asked = Request("POST", f"{_template(slug)}/versions/{version}/archive", json={})
        archived: types.TemplateVersion = self._app.call(asked, wait_seconds)
        return archived

    def archive_template(self, slug: str, *, wait_seconds: float | None = None) -> types.Template:
        """Archives the template with all its versions. This cannot be undone. Only for a person's session."""
        archived: types.Template = self._app.call(Request("POST", f"{_template(slug)}/archive", json={}), wait_seconds)
        return archived

    def files(
        self, slug: str, version: int, path: str | None = None, *, wait_seconds: float | None = None
    ) -> List[types.TemplateFile]:
        """Lists one directory of a version. Default: ``/``."""
        return list_of(self._app.call, f"{_template(slug)}/versions/{version}/files", {"path": path}, wait_seconds)

    def diff(
        self, slug: str, version: int, against: int | str | None = None, *, wait_seconds: float | None = None
    ) -> List[types.TemplateFileChange]:
        """Compares the files of two versions. ``against``: a number, or ``slug@number``; default: the version before."""
        return list_of(self._app.call, f"{_template(slug)}/versions/{version}/diff", {"against": against}, wait_seconds)

    def packages(
        self,
        query: str | None = None,
        *,
        name: str | None = None,
        architecture: str | None = None,
        limit: int | None = None,
        wait_seconds: float | None = None,
    ) -> Sequence[types.TemplatePackage]:
        """Returns Debian packages for recipes: the first page, best matches first."""
        asked = {"query": query, "name": name, "architecture": architecture, "limit": limit}
        found: types.TemplatePackageList = self._app.call(Request("GET", "/v1/template-packages", query=asked), wait_seconds)
        return found["data"]

    def languages(self, *, wait_seconds: float | None = None) -> Sequence[types.TemplateLanguage]:
        """Returns the languages for recipes, with their versions."""
        found: types.TemplateLanguageList = self._app.call(Request("GET", "/v1/template-languages"), wait_seconds)
        return found["data"]

    def upload(
        self, tar: bytes | str | os.PathLike[str], *, project: str | None = None, wait_seconds: float | None = None
    ) -> types.TemplateUpload:
        """Uploads a tar, plain or gzip, for builds to copy files from: bytes, or a file. Resumes after a lost connection."""
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
                # The part may have arrived although its answer was lost: ask for the next offset.
                seen = self._app.send(Request("GET", path), deadline)
        return seen

    def delete_upload(self, upload_id: str, *, wait_seconds: float | None = None) -> None:
        """Deletes an upload that no build needs any more."""
        self._app.call(Request("DELETE", f"/v1/template-uploads/{upload_id}", repeats="keyed"), wait_seconds)

    def build(self, slug: str, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any) -> types.TemplateBuild:
        """Starts a build from ``recipe`` or ``dockerfile``. Creates the template where it does not exist. ``fields``: ``upload_id``,
        ``build_args``, ``auto_publish`` and the others of the route."""
        json = {"project_id": self._app.project_id(project), **fields}
        answer = self._app.call(Request("POST", f"{_template(slug)}/builds", json=json, key=True), wait_seconds)
        build: types.TemplateBuild = answer["build"]
        return build

    def get_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        build: types.TemplateBuild = self._app.call(Request("GET", f"/v1/template-builds/{build_id}"), wait_seconds)
        return build

    def build_log(self, build_id: str, *, offset: int = 0, wait_seconds: float | None = None) -> Iterator[str]:
        """Yields the log of a build until it is complete."""
        deadline = deadline_of(wait_seconds, _BUILD_SECONDS)
        while True:
            asked = Request("GET", f"/v1/template-builds/{build_id}/log", query={"offset": offset})
            piece = self._of_build(build_id, asked, deadline)
            if piece["text"]:
                yield piece["text"]
            if piece["complete"]:
                return
            if piece["next_offset"] == offset:
                platform.sleep(_LOG_SECONDS)
            offset = piece["next_offset"]

    def wait_for_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        """Returns when the build has ended, with any result."""
        deadline = deadline_of(wait_seconds, _BUILD_SECONDS)
        attempt = 0
        while True:
            asked = Request("GET", f"/v1/template-builds/{build_id}", headers=PREFER_WAIT)
            build: types.TemplateBuild = self._of_build(build_id, asked, deadline)
            if build["completed_at"] is not None:
                return build
            platform.sleep(min(wait_before(attempt, None), max(deadline.left(), 0)))
            attempt += 1

    def _of_build(self, build_id: str, asked: Request, deadline: Deadline) -> Any:
        """Adds the build's id to a deadline error, since the build continues."""
        try:
            return self._app.send(asked, deadline)
        except DeadlineError as error:
            message = f"The time for this call is over; build {build_id} goes on: templates.wait_for_build waits for it"
            raise DeadlineError(message, build_id=build_id) from error

    def cancel_build(self, build_id: str, *, wait_seconds: float | None = None) -> types.TemplateBuild:
        """Cancels a build, which then makes no version."""
        asked = Request("POST", f"/v1/template-builds/{build_id}/cancel", json={}, key=True)
        build: types.TemplateBuild = self._app.call(asked, wait_seconds)
        return build

    def test(
        self, slug: str, version: int, *, project: str | None = None, wait_seconds: float | None = None, **fields: Any
    ) -> Workspace:
        """Starts a session workspace of a version, published or not. ``fields``: ``key``, ``inputs`` and the others of the route."""
        json = {"project_id": self._app.project_id(project), **fields}
        return started(self._app, f"{_template(slug)}/versions/{version}/test-instances", json, wait_seconds)


def _template(slug: str) -> str:
    return f"/v1/templates/{quote(slug, safe='')}"

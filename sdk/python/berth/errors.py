"""All errors of this library. ``code`` and ``reason`` are for programs, the message is for people."""

from __future__ import annotations

import json as _json
from collections.abc import Mapping
from typing import Any


class BerthError(Exception):
    """A refusal, or a missing answer. It never contains a credential."""

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int = 0,
        retryable: bool = False,
        request_id: str | None = None,
        operation_id: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.details: Mapping[str, Any] = details or {}
        self.message = message + _issues_in(self.details)
        super().__init__(self.message)
        self.code = code
        reason = self.details.get("reason")
        self.reason: str | None = reason if isinstance(reason, str) else None
        #: HTTP status; 0: there was no answer.
        self.status = status
        #: True if the same request may succeed later.
        self.retryable = retryable
        self.request_id = request_id
        #: The operation that blocks the request, or that failed.
        self.operation_id = operation_id
        self.retry_after_seconds = retry_after_seconds

    def __repr__(self) -> str:
        said = f"code={self.code!r}, reason={self.reason!r}, request_id={self.request_id!r}, message={self.message!r}"
        return f"{type(self).__name__}({said})"


class BadRequestError(BerthError):
    pass


class UnauthenticatedError(BerthError):
    pass


class PaymentRequiredError(BerthError):
    pass


class ForbiddenError(BerthError):
    pass


class NotFoundError(BerthError):
    pass


class ConflictError(BerthError):
    pass


class WorkspaceUnavailableError(BerthError):
    """The workspace is not available now: it is suspended, busy with an operation, or has another epoch."""


class TooLargeError(BerthError):
    pass


class RangeError(BerthError):
    pass


class ValidationError(BerthError):
    pass


class RateLimitedError(BerthError):
    pass


class DiskFullError(BerthError):
    """The workspace's disk is full (reason ``disk_full``): the call fails until files are removed."""


class UnavailableError(BerthError):
    """Berth, or a service that it needs, cannot answer now."""


class ConnectionFailedError(BerthError):
    """There was no complete answer: code ``connection_failed``."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="connection_failed", retryable=True)


class DeadlineError(BerthError):
    """The caller's time limit has passed: code ``deadline_exceeded``. The request may still take effect."""

    def __init__(
        self,
        message: str = "The time for this call is over",
        *,
        operation_id: str | None = None,
        session_id: str | None = None,
        build_id: str | None = None,
    ) -> None:
        super().__init__(message, code="deadline_exceeded", retryable=True, operation_id=operation_id)
        #: The command, execution or terminal that the call waited for: ``ws.command(id)``, ``ws.execution(id)``, ``ws.terminal(id)``.
        self.session_id = session_id
        #: The build that the call waited for: ``berth.templates.wait_for_build(id)``.
        self.build_id = build_id


class OperationError(BerthError):
    """An operation did not succeed. ``code`` and ``details`` are those of the operation."""

    def __init__(self, operation: Mapping[str, Any]) -> None:
        error = operation.get("error") or {}
        super().__init__(
            error.get("message") or f"The operation ended {operation['state']}",
            code=error.get("code", "canceled"),
            retryable=error.get("retryable", False),
            operation_id=operation["id"],
            details=error.get("details"),
        )
        self.operation = operation


_ISSUES_SHOWN_MAX = 5


def _issues_in(details: Mapping[str, Any]) -> str:
    """Lists the invalid fields in the message, since logs often contain only that."""
    issues = details.get("issues")
    if not isinstance(issues, list):
        return ""
    known = [issue for issue in issues if isinstance(issue, Mapping) and isinstance(issue.get("message"), str)]
    texts = [f"{issue.get('path', '')} {issue['message']}".strip() for issue in known]
    rest = [f"and {len(texts) - _ISSUES_SHOWN_MAX} more"] if len(texts) > _ISSUES_SHOWN_MAX else []
    return ": " + "; ".join(texts[:_ISSUES_SHOWN_MAX] + rest) if texts else ""


_CLASSES: dict[str, type[BerthError]] = {
    "bad_request": BadRequestError,
    "token_invalid": BadRequestError,
    "unauthenticated": UnauthenticatedError,
    "invalid_credentials": UnauthenticatedError,
    "entitlement_required": PaymentRequiredError,
    "allowance_exhausted": PaymentRequiredError,
    "quota_exceeded": ForbiddenError,
    "forbidden": ForbiddenError,
    "mfa_required": ForbiddenError,
    "email_unverified": ForbiddenError,
    "step_up_required": ForbiddenError,
    "not_found": NotFoundError,
    "conflict": ConflictError,
    "stale_epoch": WorkspaceUnavailableError,
    "workspace_not_running": WorkspaceUnavailableError,
    "workspace_busy": WorkspaceUnavailableError,
    "payload_too_large": TooLargeError,
    "unsupported_media_type": BadRequestError,
    "range_not_satisfiable": RangeError,
    "validation_failed": ValidationError,
    "idempotency_mismatch": ValidationError,
    "rate_limited": RateLimitedError,
    "internal_error": UnavailableError,
    "dependency_unavailable": UnavailableError,
    "service_unavailable": UnavailableError,
    "timeout": UnavailableError,
}
_RETRYABLE_STATUS = (429, 502, 503, 504)


def error_of(said: Mapping[str, Any], *, status: int = 0, retry_after_seconds: float | None = None) -> BerthError:
    """Creates the error of a reason's own class, else of the code's. An unknown code is a plain BerthError."""
    details = said.get("details") or {}
    is_full = said["code"] == "rate_limited" and details.get("reason") == "disk_full"
    return (DiskFullError if is_full else _CLASSES.get(said["code"], BerthError))(
        said["message"],
        code=said["code"],
        status=status,
        retryable=bool(said.get("retryable", False)),
        request_id=said.get("request_id"),
        operation_id=said.get("operation_id"),
        details=said.get("details"),
        retry_after_seconds=retry_after_seconds,
    )


def error_of_answer(status: int, headers: Mapping[str, str], text: bytes) -> BerthError:
    """Reads an answer that is not 2xx. An answer of a proxy has no error envelope."""
    retry_after = _seconds(headers.get("retry-after"))
    try:
        said = _json.loads(text)["error"]
        if isinstance(said["code"], str) and isinstance(said["message"], str):
            return error_of(said, status=status, retry_after_seconds=retry_after)
    except (ValueError, KeyError, TypeError):
        pass
    retryable = status in _RETRYABLE_STATUS
    message = f"The server answered {status} without saying why"
    code = "service_unavailable" if retryable else "unexpected_answer"
    plain = {"code": code, "message": message, "retryable": retryable, "request_id": headers.get("x-request-id")}
    return error_of(plain, status=status, retry_after_seconds=retry_after)


def _seconds(value: str | None) -> float | None:
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None

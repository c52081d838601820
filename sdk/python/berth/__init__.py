"""Isolated, durable workspaces for AI agents and people.

``Berth`` is the blocking client, also for notebooks; ``AsyncBerth`` is the same for ``asyncio``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._async.berth import AsyncBerth as AsyncBerth
    from ._async.exec import AsyncCommand as AsyncCommand
    from ._async.shell import AsyncTerminal as AsyncTerminal
    from ._async.workspace import AsyncWorkspace as AsyncWorkspace
    from ._results import CommandError as CommandError
    from ._results import CommandResult as CommandResult
    from ._results import OutputChunk as OutputChunk
    from ._results import TerminalChunk as TerminalChunk
    from ._sync.berth import Berth as Berth
    from ._sync.exec import Command as Command
    from ._sync.shell import Terminal as Terminal
    from ._sync.workspace import Workspace as Workspace
    from .errors import BadRequestError as BadRequestError
    from .errors import BerthError as BerthError
    from .errors import ConflictError as ConflictError
    from .errors import ConnectionFailedError as ConnectionFailedError
    from .errors import DeadlineError as DeadlineError
    from .errors import DiskFullError as DiskFullError
    from .errors import ForbiddenError as ForbiddenError
    from .errors import NotFoundError as NotFoundError
    from .errors import OperationError as OperationError
    from .errors import PaymentRequiredError as PaymentRequiredError
    from .errors import RangeError as RangeError
    from .errors import RateLimitedError as RateLimitedError
    from .errors import TooLargeError as TooLargeError
    from .errors import UnauthenticatedError as UnauthenticatedError
    from .errors import UnavailableError as UnavailableError
    from .errors import ValidationError as ValidationError
    from .errors import WorkspaceUnavailableError as WorkspaceUnavailableError

__version__ = "0.1.0"

# Modules load on first use: importing this package takes a few milliseconds.
_WHERE = {
    "Berth": "_sync.berth",
    "Command": "_sync.exec",
    "Terminal": "_sync.shell",
    "Workspace": "_sync.workspace",
    "AsyncBerth": "_async.berth",
    "AsyncCommand": "_async.exec",
    "AsyncTerminal": "_async.shell",
    "AsyncWorkspace": "_async.workspace",
    "CommandError": "_results",
    "CommandResult": "_results",
    "OutputChunk": "_results",
    "TerminalChunk": "_results",
    "BadRequestError": "errors",
    "BerthError": "errors",
    "ConflictError": "errors",
    "ConnectionFailedError": "errors",
    "DeadlineError": "errors",
    "DiskFullError": "errors",
    "ForbiddenError": "errors",
    "NotFoundError": "errors",
    "OperationError": "errors",
    "PaymentRequiredError": "errors",
    "RangeError": "errors",
    "RateLimitedError": "errors",
    "TooLargeError": "errors",
    "UnauthenticatedError": "errors",
    "UnavailableError": "errors",
    "ValidationError": "errors",
    "WorkspaceUnavailableError": "errors",
}

__all__ = list(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'berth' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])

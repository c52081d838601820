"""Inspect's self-check of sandboxes, on a workspace with a machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from berth_inspect import BerthSandboxEnvironment
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403


@pytest_asyncio.fixture
async def sandbox_env() -> AsyncIterator[SandboxEnvironment]:
    environments = await BerthSandboxEnvironment.sample_init("self-check", None, {})
    yield environments["default"]
    await BerthSandboxEnvironment.sample_cleanup("self-check", None, environments, False)

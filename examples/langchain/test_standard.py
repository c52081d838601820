"""LangChain's standard sandbox tests, on a workspace with a machine."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from berth import Berth
from berth_deepagents import BerthSandbox
from langchain_tests.integration_tests import SandboxIntegrationTests


class TestBerth(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self) -> Iterator[BerthSandbox]:
        with Berth() as berth, berth.open(f"langchain-{uuid.uuid4().hex[:8]}", template="base") as workspace:
            # The tests call `python`; Debian only has python3.
            workspace.exec(["ln", "-sf", "python3", "/usr/bin/python"], user="root", check=True)
            yield BerthSandbox(workspace)
            workspace.delete()

"""Runs the tests of this folder and prints one line of JSON a test: its name, why it failed, and how long it took."""

from __future__ import annotations

import json
import sys
import time
import unittest
from pathlib import Path
from typing import Any


class Lines(unittest.TestResult):
    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._why: list[str] = []
        self._started = time.monotonic()

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        # Reports an error outside of the tests, which no test would report.
        if not isinstance(test, unittest.TestCase) or not hasattr(self, "_why"):
            say(str(test), self.errors[-1][1])
        else:
            self._why.append(self.errors[-1][1])

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._why.append(self.failures[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._why.append(f"{subtest}: {err[1]!r}")

    def stopTest(self, test: unittest.TestCase) -> None:
        name = f"{type(test).__name__}: {test.shortDescription() or test.id()}"
        say(name, "\n".join(self._why), time.monotonic() - self._started)
        super().stopTest(test)


def say(name: str, why: str, seconds: float = 0.0) -> None:
    print(json.dumps({"name": name, "why": why, "seconds": round(seconds, 3)}), flush=True)


def main() -> None:
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here.parent))
    unittest.defaultTestLoader.discover(str(here)).run(Lines())


if __name__ == "__main__":
    main()

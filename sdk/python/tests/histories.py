"""Runs random histories against the service that BERTH_TEST_URLS names, and prints one line of JSON each: its seed, and why it failed.

Odd seeds are asyncio's, even ones are of threads.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ASYNC_AT_ONCE = 16
THREADS = 8
URLS = os.environ["BERTH_TEST_URLS"]


def main() -> None:
    seeds: list[int] = json.loads(os.environ["BERTH_TEST_SEEDS"])
    with ThreadPoolExecutor(THREADS + 1) as pool:
        others = pool.submit(asyncio.run, with_asyncio([seed for seed in seeds if seed % 2 == 1]))
        list(pool.map(with_threads, [seed for seed in seeds if seed % 2 == 0]))
        others.result()


async def with_asyncio(seeds: list[int]) -> None:
    from history_async import history

    turn = asyncio.Semaphore(ASYNC_AT_ONCE)

    async def one(seed: int) -> None:
        async with turn:
            try:
                await history(seed, f"{URLS}{seed}", f"python-{seed}", trouble)
                say(seed, "")
            except Exception:
                say(seed, traceback.format_exc())

    await asyncio.gather(*(one(seed) for seed in seeds))


def with_threads(seed: int) -> None:
    from history_sync import history

    try:
        history(seed, f"{URLS}{seed}", f"python-{seed}", trouble)
        say(seed, "")
    except Exception:
        say(seed, traceback.format_exc())


def trouble(what: str, workspace_id: str) -> None:
    """Another client suspends the workspace, or a process of the service restarts."""
    from berth import Berth, BerthError

    if what != "suspend":
        urllib.request.urlopen(f"{URLS}restart/{what}").close()
        return
    with Berth(f"{URLS}calm") as other:
        try:
            other.workspace(workspace_id).suspend()
        except BerthError:
            pass # it may be suspended already, or another operation may lock it


def say(seed: int, why: str) -> None:
    print(json.dumps({"seed": seed, "why": why}), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()

"""What is not the same for asyncio and threads, and what no client may do."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
import threading
import time
import traceback
import unittest
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import test_async
import test_sync

import berth
from berth._requests import Deadline, Request

HISTORIES = int(os.environ.get("BERTH_TEST_HISTORIES", "20"))
PACKAGE = Path(berth.__file__).parent
GUIDE = PACKAGE.parents[2] / "docs/guides/python.md"
README = PACKAGE.parents[2] / "README.md"


class Faults(unittest.TestCase):
    def test_async(self) -> None:
        """over connections that fail, break off, repeat and delay, asyncio runs every command once and sees every byte once"""

        async def all() -> None:
            await asyncio.gather(*(test_async.history(seed) for seed in range(HISTORIES)))

        asyncio.run(all())

    def test_sync(self) -> None:
        """over connections that fail, break off, repeat and delay, threads run every command once and see every byte once"""
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(test_sync.history, range(HISTORIES)))


class Input(unittest.IsolatedAsyncioTestCase):
    async def test_joined(self) -> None:
        """with asyncio, what is written while a request is on its way goes with the next one"""
        async with berth.AsyncBerth() as client:
            ws = await client.open(f"joined-{uuid.uuid4()}", template="base")
            command = await ws.start(["cat"], stdin_open=True)
            sent: list[int] = []
            call = command._gateway.call

            async def counted(asked: Request, wait_seconds: float | None = None) -> object:
                sent.append(len(asked.body or b""))
                return await call(asked, wait_seconds)

            command._gateway.call = counted  # type: ignore[method-assign]
            first = asyncio.create_task(command.write("first"))
            while not sent:
                await asyncio.sleep(0)
            await asyncio.gather(first, *(command.write("x") for _ in range(500)), command.end())
            command._gateway.call = call  # type: ignore[method-assign]
            self.assertEqual((sent, (await command.result()).stdout), ([5, 500], "first" + "x" * 500))


class Threads(unittest.TestCase):
    def test_joined(self) -> None:
        """with threads, what is written while a request is on its way goes with the next one, in order and each piece to its caller"""
        with berth.Berth() as client, ThreadPoolExecutor(20) as pool:
            ws = client.open(f"joined-{uuid.uuid4()}", template="base")
            command = ws.start(["cat"], stdin_open=True)
            sent: list[int] = []
            begun, all_wait = threading.Event(), threading.Event()
            call = command._gateway.call

            def counted(asked: Request, wait_seconds: float | None = None) -> object:
                sent.append(len(asked.body or b""))
                begun.set()
                if not all_wait.wait(60):
                    raise TimeoutError("nobody waits")
                return call(asked, wait_seconds)

            command._gateway.call = counted  # type: ignore[method-assign]
            writing = [pool.submit(command.write, "first,")]
            begun.wait(60)
            for at in range(10):
                writing.append(pool.submit(command.write, f"{at},"))
                # The next one is written after this one waits.
                until(lambda: len(command._stdin._waiting) == len(writing) - 1)
            writing.append(pool.submit(command.end))
            until(lambda: len(command._stdin._waiting) == 11)
            all_wait.set()
            for each in writing:
                each.result(60)
            command._gateway.call = call  # type: ignore[method-assign]
            text = "first," + "".join(f"{at}," for at in range(10))
            self.assertEqual((sent, command.result().stdout), ([6, 20], text))

    def test_broken(self) -> None:
        """with threads, after a write that failed, all that wait and all that follow fail with the same"""
        from berth._sync.platform import Joined

        sending, all_wait = threading.Event(), threading.Event()

        def fails(_data: bytes, _close: bool, _wait_seconds: float | None) -> None:
            sending.set()
            all_wait.wait(60)
            raise ConnectionError("it broke off")

        joined = Joined(fails, 1 << 20)
        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(joined.write, b"first", False, None)]
            sending.wait(60)
            writing += [pool.submit(joined.write, b"x", False, None) for _ in range(3)]
            until(lambda: len(joined._waiting) == 3)
            all_wait.set()
            self.assertEqual([str(each.exception(60)) for each in writing], ["it broke off"] * 4)
        with self.assertRaisesRegex(ConnectionError, "it broke off"):
            joined.write(b"later", False, None)


_WORK: list[asyncio.Task[object]] = []


class Notebooks(unittest.IsolatedAsyncioTestCase):
    async def test_loop(self) -> None:
        """the client for threads does its work while an event loop runs"""
        with berth.Berth() as client:
            ws = client.open(f"notebook-{uuid.uuid4()}", template="base")
            self.assertEqual(ws.exec(["echo", "here"]).stdout, "here\n")

    async def test_cancelled(self) -> None:
        """a command whose task is cancelled is cancelled"""
        async with berth.AsyncBerth() as client:
            ws = await client.open(f"cancelled-{uuid.uuid4()}", template="base")
            begun = asyncio.Event()
            work = asyncio.create_task(ws.exec(test_async.LONG, session_id="left", on_output=lambda _: begun.set()))
            await begun.wait()
            work.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await work
            result = await ws.command("left").result()
            self.assertEqual((result.ok, result.exit_code), (False, -1))

    async def test_cancelled_start(self) -> None:
        """a command whose task is cancelled while it is started is cancelled, also where the client is closed at once"""
        async with berth.AsyncBerth() as client:
            ws = await client.open(f"cancelled-start-{uuid.uuid4()}", template="base")
            started = asyncio.Event()
            call = ws._gateway.call

            async def unanswered(asked: Request, wait_seconds: float | None = None) -> object:
                answer = await call(asked, wait_seconds)
                if asked.path == "/exec":
                    started.set()
                    await asyncio.sleep(600)
                return answer

            ws._gateway.call = unanswered  # type: ignore[method-assign]
            work = asyncio.create_task(ws.exec(test_async.LONG, session_id="starting"))
            await started.wait()
            work.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await work
        async with berth.AsyncBerth() as client:
            again = await client.workspace(ws.id)
            result = await again.command("starting").result(wait_seconds=60)
            self.assertEqual((result.ok, result.exit_code), (False, -1))

    async def test_cancelled_before(self) -> None:
        """an exec whose task is cancelled before it begins starts nothing"""
        async with berth.AsyncBerth() as client:
            ws = await client.open(f"cancelled-before-{uuid.uuid4()}", template="base")
            work = asyncio.create_task(ws.exec(test_async.LONG, session_id="never"))
            work.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await work
            self.assertEqual(await ws.commands().all(), [])

    async def test_left(self) -> None:
        """a started command goes on when the task that waits for it is cancelled, and when the client is closed"""
        async with berth.AsyncBerth() as client:
            ws = await client.open(f"left-{uuid.uuid4()}", template="base")
            command = await ws.start(test_async.LONG, session_id="goes-on")
            begun = asyncio.Event()
            work = asyncio.create_task(command.result(on_output=lambda _: begun.set()))
            await begun.wait()
            work.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await work
        async with berth.AsyncBerth() as client:
            again = await client.workspace(ws.id)
            running = await again.commands(state="running").all()
            self.assertEqual([each["session_id"] for each in running], ["goes-on"])
            await again.command("goes-on").cancel()

    def test_run(self) -> None:
        """a command whose program is ended with its event loop is cancelled"""

        async def program() -> str:
            client = berth.AsyncBerth()
            ws = await client.open(f"run-{uuid.uuid4()}", template="base")
            begun = asyncio.Event()
            # No task waits for it: asyncio.run cancels it at its end.
            _WORK.append(asyncio.create_task(ws.exec(test_async.LONG, session_id="ended", on_output=lambda _: begun.set())))
            await begun.wait()
            return ws.id

        id = asyncio.run(program())
        with berth.Berth() as client:
            self.assertEqual(client.workspace(id).command("ended").result(wait_seconds=60).exit_code, -1)

    def test_interrupted(self) -> None:
        """with threads, a command that Ctrl-C meets while it is started, or while it runs, is cancelled before the client is closed"""

        def interrupts(_: object) -> None:
            raise KeyboardInterrupt

        with berth.Berth() as client:
            ws = client.open(f"interrupted-{uuid.uuid4()}", template="base")
            call = ws._gateway.call

            def interrupted(asked: Request, wait_seconds: float | None = None) -> object:
                answer = call(asked, wait_seconds)
                if asked.path == "/exec":
                    raise KeyboardInterrupt
                return answer

            with self.assertRaises(KeyboardInterrupt):
                ws.exec(test_sync.LONG, session_id="running", on_output=interrupts)
            ws._gateway.call = interrupted  # type: ignore[method-assign]
            with self.assertRaises(KeyboardInterrupt):
                ws.exec(test_sync.LONG, session_id="starting")
        with berth.Berth() as client:
            again = client.workspace(ws.id)
            for id in ("running", "starting"):
                self.assertEqual(again.command(id).result(wait_seconds=60).exit_code, -1, id)

    def test_deadlines(self) -> None:
        """an error whose time is over names what goes on, and says how to find it again"""
        with berth.Berth() as client:
            ws = client.open(f"deadlines-{uuid.uuid4()}", template="base")
            with self.assertRaises(berth.DeadlineError) as over:
                ws.exec(test_sync.LONG, session_id="goes-on", wait_seconds=1)
            self.assertEqual(over.exception.session_id, "goes-on")
            self.assertIn('ws.command("goes-on") finds it again', str(over.exception))
            with self.assertRaises(berth.DeadlineError) as over:
                list(ws.command("goes-on").output(wait_seconds=0.5))
            self.assertEqual(over.exception.session_id, "goes-on")
            ws.command("goes-on").cancel()
            late = {"wait_seconds": 0.0}
            with self.assertRaises(berth.DeadlineError) as over:
                ws.shell(["cat"], session_id="screen", **late)
            self.assertEqual(over.exception.session_id, "screen")
            self.assertIn('ws.terminal("screen") finds it again', str(over.exception))
            with self.assertRaises(berth.DeadlineError) as over:
                client.wait_for_operation("o", **late)
            self.assertEqual(over.exception.operation_id, "o")
            for waits in (lambda: client.templates.wait_for_build("b", **late), lambda: list(client.templates.build_log("b", **late))):
                with self.assertRaises(berth.DeadlineError) as over:
                    waits()
                self.assertEqual(over.exception.build_id, "b")
            with self.assertRaisesRegex(berth.DeadlineError, "open the same key again"):
                client.open("some-key", **late)

    async def test_shared(self) -> None:
        """many calls on a suspended workspace resume it once, and each runs once"""
        async with berth.AsyncBerth() as client:
            ws = await client.open(f"shared-{uuid.uuid4()}", template="base")
            await ws.suspend()
            await asyncio.gather(*(ws.exec(["count", str(at), "10"], check=True) for at in range(20)))
            runs = [await ws.files.read_text(f"/home/user/runs-{at}") for at in range(20)]
            self.assertEqual(runs, ["x"] * 20)


class Shared(unittest.TestCase):
    def test_threads(self) -> None:
        """what threads need at once is done once"""
        from berth._sync.platform import Shared

        done: list[float] = []

        def work(_deadline: Deadline) -> None:
            while len(waiting) < 8:
                time.sleep(0.001)
            time.sleep(0.05)
            done.append(time.monotonic())

        shared = Shared(work, 60)
        waiting: list[int] = []

        def one(at: int) -> None:
            waiting.append(at)
            shared.done(Deadline(60))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(one, range(8)))
        self.assertEqual(len(done), 1)


class Credentials(unittest.TestCase):
    def test_hidden(self) -> None:
        """no credential is in a log, a representation or an error"""
        key = os.environ["BERTH_API_KEY"]
        said = StringIO()
        handler = logging.StreamHandler(said)
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.DEBUG)
        try:
            with berth.Berth() as client:
                ws = client.open(f"hidden-{uuid.uuid4()}", template="base")
                shell = ws.shell(["cat"])
                shell.write("x\n")
                for _ in shell:
                    break
                shell.detach()
                shell.close()
                said.write(f"{client!r} {ws!r} {shell!r} {ws.files!r}")
                for wrong in (lambda: ws.files.read("/missing"), lambda: berth.Berth(api_key=f"{key}\nx")):
                    try:
                        wrong()
                    except (berth.BerthError, ValueError) as error:
                        said.write("".join(traceback.format_exception(error)) + repr(error) + repr(vars(error)))
        finally:
            logging.getLogger().setLevel(logging.WARNING)
            logging.getLogger().removeHandler(handler)
        text = said.getvalue()
        self.assertIn("NotFoundError", text)
        self.assertIn("no key has", text)
        self.assertEqual((key in text, "double." in text), (False, False))


class Rules(unittest.TestCase):
    def test_repeats(self) -> None:
        """a request is sent again by the rules of the API"""
        from berth._requests import may_repeat
        from berth.errors import error_of, error_of_answer

        def said(code: str, reason: str | None = None, retryable: bool = False) -> berth.BerthError:
            return error_of({"code": code, "message": "", "retryable": retryable, "request_id": "r", "details": {"reason": reason}})

        self.assertIs(type(said("rate_limited", "disk_full")), berth.DiskFullError)
        self.assertIs(type(said("rate_limited", "resource_limit")), berth.RateLimitedError)
        proxy = error_of_answer(502, {"retry-after": "3"}, b"<html>")
        self.assertEqual((proxy.code, proxy.retryable, proxy.retry_after_seconds), ("service_unavailable", True, 3.0))
        for error, read, keyed, once in [
            (proxy, True, True, False),
            (berth.ConnectionFailedError(""), True, True, False),
            (berth.DeadlineError(), False, False, False),
            (said("stale_epoch", retryable=True), True, True, True),
            (said("workspace_busy", retryable=True), True, True, True),
            (said("rate_limited", retryable=True), True, True, False),
            (said("rate_limited", "mfa_locked", retryable=True), False, False, False),
            (said("rate_limited", "disk_full", retryable=True), False, False, False),
            (said("conflict", "operation_interrupted"), False, True, False),
            (said("validation_failed"), False, False, False),
        ]:
            with self.subTest(error=repr(error)):
                self.assertEqual([may_repeat(error, "read"), may_repeat(error, "keyed"), may_repeat(error, "once")], [read, keyed, once])

    def test_operation(self) -> None:
        """an operation that failed is an error with its code, and one that was canceled says so"""
        failed = berth.OperationError({"id": "o", "state": "failed", "error": {"code": "capacity_pending", "message": "full"}})
        self.assertEqual((failed.code, str(failed), failed.operation_id), ("capacity_pending", "full", "o"))
        canceled = berth.OperationError({"id": "o", "state": "canceled", "error": None})
        self.assertEqual((canceled.code, str(canceled)), ("canceled", "The operation ended canceled"))

    def test_construction(self) -> None:
        """without a key, or with an address that is none, there is no client"""
        with self.assertRaisesRegex(ValueError, "begins with http"):
            berth.Berth("berth.example")
        key = os.environ.pop("BERTH_API_KEY")
        try:
            with self.assertRaisesRegex(TypeError, "BERTH_API_KEY"):
                berth.AsyncBerth("http://127.0.0.1")
        finally:
            os.environ["BERTH_API_KEY"] = key


class Package(unittest.TestCase):
    def test_import(self) -> None:
        """importing it loads no library, and every name that it offers is there"""
        program = "import sys, berth; print(sorted({'httpx', 'websockets', 'asyncio'} & {*sys.modules}))"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
        self.assertEqual(ran.stdout, "[]\n")
        self.assertEqual([name for name in berth.__all__ if not hasattr(berth, name)], [])

    def test_import_time(self) -> None:
        """importing it takes at most 150 ms of processor time"""
        program = "import time; before = time.process_time(); import berth; print(time.process_time() - before)"
        took = [
            float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=PACKAGE.parent, check=True).stdout)
            for _ in range(3)
        ]
        self.assertLess(min(took), 0.15)

    def test_version(self) -> None:
        """its version is that of its manifest"""
        manifest = (PACKAGE.parent / "pyproject.toml").read_text()
        self.assertIn(f'\nversion = "{berth.__version__}"\n', manifest)


class Guide(unittest.TestCase):
    def test_samples(self) -> None:
        """the samples of docs/guides/python.md print what it says"""
        text = GUIDE.read_text()
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile("\n".join(blocks(text, "python")), str(GUIDE), "exec"), {"__name__": "sample"})
        self.assertEqual(printed.getvalue(), "".join(blocks(text, "text")))

    def test_readme(self) -> None:
        """the three lines of Python in README.md run a command"""
        printed = StringIO()
        (sample,) = blocks(README.read_text(), "python")
        with redirect_stdout(printed):
            exec(sample, {"__name__": "sample"})
        self.assertEqual(printed.getvalue(), "42\n")


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.001)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

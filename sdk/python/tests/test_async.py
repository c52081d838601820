"""What the client for asyncio promises. Of the one for threads the same is said."""

from __future__ import annotations

import os
import random
import unittest
import uuid

from berth import AsyncBerth, AsyncWorkspace, BerthError, CommandError, ConflictError, ConnectionFailedError, DeadlineError, NotFoundError

BOTH = ["sh", "-c", "echo out; echo err >&2; exit 3"]
LINES = ["sh", "-c", "for i in 1 2 3; do echo line $i; done"]
LONG = ["sh", "-c", "echo begun; sleep 600"]
MARK = ["sh", "-c", "echo x >> /home/user/marks; echo marked"]


class AsyncClient(unittest.IsolatedAsyncioTestCase):
    async def test_command(self) -> None:
        """a command has its text, bytes and exit code"""
        async with AsyncBerth() as berth:
            result = await (await opened(berth)).exec(BOTH)
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out\n", "err\n", 3))
        self.assertEqual((result.ok, result.state, result.stderr_bytes), (False, "exited", b"err\n"))

    async def test_output(self) -> None:
        """output streams in order, with offsets, and again from an offset"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            command = await ws.start(LINES)
            text = ""
            async for chunk in command:
                self.assertEqual((chunk.offset, chunk.stream), (len(text), "stdout"))
                text += chunk.text
            self.assertEqual(text, "line 1\nline 2\nline 3\n")
            rest = [chunk.text async for chunk in ws.command(command.id).output(stdout_offset=14)]
            self.assertEqual("".join(rest), "line 3\n")
            seen: list[str] = []
            result = await ws.exec(["cat"], stdin=b"\x00in", on_output=lambda chunk: seen.append(chunk.text))
            self.assertEqual((result.stdout_bytes, "".join(seen)), (b"\x00in", "\x00in"))

    async def test_stdin(self) -> None:
        """what is written to a command comes once and in order, and its end ends it"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            command = await ws.start(["cat"], stdin="0,", stdin_open=True)
            for at in range(1, 20):
                await command.write(f"{at},")
            await command.write(b"x" * 3_000_000)
            await command.end()
            result = await command.result()
            self.assertEqual(result.stdout, "".join(f"{at}," for at in range(20)) + "x" * 3_000_000)
            with self.assertRaises(ConflictError) as caught:
                await command.write("more")
            self.assertEqual(caught.exception.reason, "stdin_closed")

    async def test_stdin_of_another_program(self) -> None:
        """a program that finds a running command writes after what another one wrote"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            command = await ws.start(["cat"], stdin="first,", stdin_open=True, session_id=f"found-{uuid.uuid4()}")
            await command.write("second,")
            await ws.command(command.id).write("third,")
            again = await ws.start(["cat"], stdin="first,", stdin_open=True, session_id=command.id)
            await again.write("fourth")
            await again.end()
            self.assertEqual((await again.result()).stdout, "first,second,third,fourth")

    async def test_not_there(self) -> None:
        """a command that cannot start raises, unless check is False"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            with self.assertRaises(CommandError) as raised:
                await ws.exec(["no-such-program"])
            self.assertIn("could not start", str(raised.exception))
            result = await ws.exec(["no-such-program"], check=False)
            self.assertEqual((result.state, result.ok, result.exit_code), ("failed_to_start", False, None))
            self.assertTrue(result.error)
            with self.assertRaises(CommandError) as caught:
                await ws.exec(BOTH, check=True)
            self.assertEqual((caught.exception.result.exit_code, caught.exception.code), (3, "command_failed"))
            self.assertEqual(str(caught.exception), "The command ended with exit code 3: err")

    async def test_line(self) -> None:
        """a line is run by a login shell"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            self.assertEqual((await ws.exec(BOTH[2])).exit_code, 3)
            self.assertEqual((await (await ws.start(BOTH[2])).result()).stdout, "out\n")

    async def test_deadline_names_command(self) -> None:
        """a call whose time is over names its command, which goes on"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            with self.assertRaises(DeadlineError) as caught:
                await ws.exec(LONG, wait_seconds=1.5)
            assert caught.exception.session_id is not None
            command = ws.command(caught.exception.session_id)
            self.assertEqual((await command.status())["state"], "running")
            await command.cancel()

    async def test_no_service(self) -> None:
        """without a service the first call fails within seconds, and says where it looked"""
        with self.assertLogs("berth", "WARNING") as told, self.assertRaises(ConnectionFailedError) as caught:
            async with AsyncBerth("http://127.0.0.1:9") as berth:
                await berth.open("none")
        self.assertIn("http://127.0.0.1:9", str(caught.exception))
        self.assertIn("trying again", told.output[0])

    async def test_cancel(self) -> None:
        """a command that is left by its block is cancelled"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            async with await ws.start(LONG) as command:
                async for chunk in command:
                    self.assertEqual(chunk.text, "begun\n")
                    break
                so_far = [chunk.text async for chunk in command.output(follow=False)]
                self.assertEqual("".join(so_far), "begun\n")
            result = await ws.command(command.id).result()
            self.assertEqual((result.ok, result.exit_code, result.stdout), (False, -1, "begun\n"))

    async def test_deadline(self) -> None:
        """who waits no longer is told so, and the command goes on"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            with self.assertRaises(BerthError) as caught:
                await ws.exec(LONG, session_id="late", wait_seconds=0.5)
            self.assertEqual(caught.exception.code, "deadline_exceeded")
            self.assertEqual((await ws.command("late").status())["state"], "running")

    async def test_files(self) -> None:
        """files are written, read, listed, searched, patched, moved and removed"""
        path = "/home/user/notes.txt"
        async with AsyncBerth() as berth:
            files = (await opened(berth)).files
            written = await files.write(path, "one\ntwo\n")
            self.assertEqual((written["bytes_written"], written["durable"]), (8, True))
            self.assertEqual(await files.read_text(path), "one\ntwo\n")
            self.assertEqual(await files.read(path, offset=4, length=3), b"two")
            await files.patch(path, edits=[{"old_text": "two", "new_text": "three"}])
            found = await files.search("/home/user", "three")
            self.assertEqual([(match["path"], match["line"]) for match in found["matches"]], [(path, 2)])
            self.assertEqual((await files.stat(path))["size"], 10)
            await files.move(path, "/home/user/moved.txt")
            self.assertEqual((await files.exists(path), await files.exists("/home/user/moved.txt")), (False, True))
            self.assertIn("moved.txt", [entry["name"] for entry in (await files.list("/home/user"))["entries"]])
            await files.remove("/home/user/moved.txt")
            self.assertFalse(await files.exists("/home/user/moved.txt"))
            self.assertEqual((await files.mkdir("/home/user/folder"))["type"], "directory")

    async def test_large_file(self) -> None:
        """a file larger than one request is whole, and streams back"""
        content = (b"berth" * (1 << 21))[: (7 << 20) + 12_345]
        async with AsyncBerth() as berth:
            files = (await opened(berth)).files
            written = await files.write("/home/user/large", content)
            self.assertEqual((written["path"], written["bytes_written"]), ("/home/user/large", len(content)))
            self.assertTrue(b"".join([piece async for piece in files.stream("/home/user/large")]) == content)
            self.assertEqual([entry["name"] for entry in (await files.list("/home/user"))["entries"]], ["large"])

    async def test_refusal(self) -> None:
        """a refusal is an error of its code, with reason and request id"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            with self.assertRaises(NotFoundError) as caught:
                await ws.files.read("/home/user/missing")
        error = caught.exception
        self.assertEqual((error.code, error.reason, error.status, error.retryable), ("not_found", "path_not_found", 404, False))
        self.assertTrue(error.request_id)

    async def test_suspended(self) -> None:
        """a call on a suspended workspace resumes it, and runs once"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            await ws.exec(MARK, check=True)
            self.assertEqual((await ws.suspend())["state"], "succeeded")
            self.assertEqual((await ws.refresh())["observed_state"], "suspended")
            self.assertEqual((await ws.exec(MARK, check=True)).stdout, "marked\n")
            self.assertEqual(await ws.files.read_text("/home/user/marks"), "x\nx\n")
            still = await berth.workspace(ws.id, wake=False)
            await ws.suspend()
            with self.assertRaises(BerthError) as caught:
                await still.exec(["true"])
            self.assertEqual(caught.exception.code, "workspace_not_running")
            await ws.resume()
            self.assertEqual(ws.view["observed_state"], "running")

    async def test_found(self) -> None:
        """it is found by key and in lists, and its key is never used again"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            found = await berth.find(ws.key)
            self.assertEqual(found and found.id, ws.id)
            self.assertIsNone(await berth.find("nobody"))
            views = await berth.workspaces(key_prefix=ws.key).all()
            self.assertEqual([view["id"] for view in views], [ws.id])
            with self.assertRaisesRegex(TypeError, r"what all\(\) returns"):
                len(berth.workspaces())
            await ws.delete()
            with self.assertRaises(ConflictError) as caught:
                await berth.open(ws.key, template="base")
            self.assertEqual(caught.exception.reason, "workspace_deleted")

    async def test_copies(self) -> None:
        """a fork goes on from the same files, and a snapshot is restored"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            await ws.files.write("/home/user/before", "shared")
            fork = await ws.fork(f"{ws.key}-fork")
            self.assertNotEqual(fork.id, ws.id)
            self.assertEqual(await fork.files.read_text("/home/user/before"), "shared")
            kept = await ws.snapshot(label="kept")
            await ws.files.write("/home/user/before", "changed")
            await ws.restore(kept["result"]["checkpoint_id"])
            self.assertEqual(await ws.files.read_text("/home/user/before"), "shared")
            self.assertEqual([each["label"] for each in await ws.checkpoints().all()], ["kept"])
            kinds = [each["kind"] async for each in ws.operations()]
            self.assertEqual(kinds, ["restore", "snapshot"])
            self.assertEqual((await berth.wait_for_operation(kept["id"]))["state"], "succeeded")

    async def test_file_first(self) -> None:
        """commands of a file-first workspace are executions"""
        async with AsyncBerth() as berth:
            ws = await opened(berth, mode="file_first")
            result = await ws.exec(MARK)
            assert result.execution is not None
            self.assertEqual((result.stdout, result.ok, result.execution["tree_revision"]), ("marked\n", True, 1))
            self.assertEqual((await ws.exec(["nothing"], check=False)).state, "failed_to_start")
            with self.assertRaises(CommandError):
                await ws.exec(["nothing"])

    async def test_terminal(self) -> None:
        """a terminal shows what is typed, is left and taken up again, and closes"""
        async with AsyncBerth() as berth:
            ws = await opened(berth)
            shell = await ws.shell(["cat"])
            await shell.write("hello\n")
            shown = ""
            async for chunk in shell:
                shown += chunk.text
                if "hello" in shown:
                    break
            await shell.detach()
            again, shown = ws.terminal(shell.id), ""
            async for chunk in again:
                shown += chunk.text
                if "hello" in shown:
                    break
            await again.close()
            last = ws.terminal(shell.id, offset=2)
            self.assertEqual("".join([chunk.text async for chunk in last]), "llo\n")
            assert last.ending is not None
            self.assertEqual(last.ending["state"], "exited")

    async def test_nouns(self) -> None:
        """secrets belong to the project of the key, and any route can be asked"""
        async with AsyncBerth() as berth:
            name = f"S_{uuid.uuid4().hex}"
            created = await berth.secrets.create(name, "hidden")
            self.assertEqual(created["name"], name)
            self.assertIn(name, [secret["name"] async for secret in berth.secrets.list()])
            self.assertEqual((await berth.me())["type"], "api_key")
            self.assertEqual(await berth.api("GET", "/v1/client-versions"), await berth.client_versions())


async def opened(berth: AsyncBerth, mode: str | None = None) -> AsyncWorkspace:
    return await berth.open(f"python-{uuid.uuid4()}", template="base", mode=mode)


async def history(seed: int) -> None:
    """Commands on one workspace, which is suspended meanwhile, over a network that fails a third of the time."""
    draw = random.Random(seed)
    async with AsyncBerth(os.environ["BERTH_TEST_FAULTY_URL"]) as berth:
        ws = await opened(berth)
        for name in ("a", "b", "c"):
            if draw.random() < 0.4:
                try:
                    await ws.suspend()
                except BerthError:
                    pass  # it may be suspended already
            size = draw.randrange(20_000)
            result = await ws.exec(["count", name, str(size)])
            ran = await ws.files.read_text(f"/home/user/runs-{name}")
            if (result.ok, len(result.stdout_bytes), ran) != (True, size, "x"):
                raise AssertionError(f"seed {seed}: {result.exit_code}, {len(result.stdout_bytes)} of {size} bytes, ran {ran}")
            await ws.files.write("/home/user/log", name, append=True)
        log = await ws.files.read_text("/home/user/log")
        if log != "abc":
            raise AssertionError(f"seed {seed}: {log}")

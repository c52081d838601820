# Made by tools/sync.py from tests/test_async.py. Do not change it by hand.
"""What the client for asyncio promises. Of the one for threads the same is said."""

from __future__ import annotations

import os
import random
import unittest
import uuid

from berth import Berth, Workspace, BerthError, CommandError, ConflictError, ConnectionFailedError, DeadlineError, NotFoundError

BOTH = ["sh", "-c", "echo out; echo err >&2; exit 3"]
LINES = ["sh", "-c", "for i in 1 2 3; do echo line $i; done"]
LONG = ["sh", "-c", "echo begun; sleep 600"]
MARK = ["sh", "-c", "echo x >> /home/user/marks; echo marked"]


class Client(unittest.TestCase):
    def test_command(self) -> None:
        """a command has its text, bytes and exit code"""
        with Berth() as berth:
            result = (opened(berth)).exec(BOTH)
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out\n", "err\n", 3))
        self.assertEqual((result.ok, result.state, result.stderr_bytes), (False, "exited", b"err\n"))

    def test_output(self) -> None:
        """output streams in order, with offsets, and again from an offset"""
        with Berth() as berth:
            ws = opened(berth)
            command = ws.start(LINES)
            text = ""
            for chunk in command:
                self.assertEqual((chunk.offset, chunk.stream), (len(text), "stdout"))
                text += chunk.text
            self.assertEqual(text, "line 1\nline 2\nline 3\n")
            rest = [chunk.text for chunk in ws.command(command.id).output(stdout_offset=14)]
            self.assertEqual("".join(rest), "line 3\n")
            seen: list[str] = []
            result = ws.exec(["cat"], stdin=b"\x00in", on_output=lambda chunk: seen.append(chunk.text))
            self.assertEqual((result.stdout_bytes, "".join(seen)), (b"\x00in", "\x00in"))

    def test_stdin(self) -> None:
        """what is written to a command comes once and in order, and its end ends it"""
        with Berth() as berth:
            ws = opened(berth)
            command = ws.start(["cat"], stdin="0,", stdin_open=True)
            for at in range(1, 20):
                command.write(f"{at},")
            command.write(b"x" * 3_000_000)
            command.end()
            result = command.result()
            self.assertEqual(result.stdout, "".join(f"{at}," for at in range(20)) + "x" * 3_000_000)
            with self.assertRaises(ConflictError) as caught:
                command.write("more")
            self.assertEqual(caught.exception.reason, "stdin_closed")

    def test_stdin_of_another_program(self) -> None:
        """a program that finds a running command writes after what another one wrote"""
        with Berth() as berth:
            ws = opened(berth)
            command = ws.start(["cat"], stdin="first,", stdin_open=True, session_id=f"found-{uuid.uuid4()}")
            command.write("second,")
            ws.command(command.id).write("third,")
            again = ws.start(["cat"], stdin="first,", stdin_open=True, session_id=command.id)
            again.write("fourth")
            again.end()
            self.assertEqual((again.result()).stdout, "first,second,third,fourth")

    def test_not_there(self) -> None:
        """a command that cannot start raises, unless check is False"""
        with Berth() as berth:
            ws = opened(berth)
            with self.assertRaises(CommandError) as raised:
                ws.exec(["no-such-program"])
            self.assertIn("could not start", str(raised.exception))
            result = ws.exec(["no-such-program"], check=False)
            self.assertEqual((result.state, result.ok, result.exit_code), ("failed_to_start", False, None))
            self.assertTrue(result.error)
            with self.assertRaises(CommandError) as caught:
                ws.exec(BOTH, check=True)
            self.assertEqual((caught.exception.result.exit_code, caught.exception.code), (3, "command_failed"))
            self.assertEqual(str(caught.exception), "The command ended with exit code 3: err")

    def test_line(self) -> None:
        """a line is run by a login shell"""
        with Berth() as berth:
            ws = opened(berth)
            self.assertEqual((ws.exec(BOTH[2])).exit_code, 3)
            self.assertEqual(((ws.start(BOTH[2])).result()).stdout, "out\n")

    def test_deadline_names_command(self) -> None:
        """a call whose time is over names its command, which goes on"""
        with Berth() as berth:
            ws = opened(berth)
            with self.assertRaises(DeadlineError) as caught:
                ws.exec(LONG, wait_seconds=1.5)
            assert caught.exception.session_id is not None
            command = ws.command(caught.exception.session_id)
            self.assertEqual((command.status())["state"], "running")
            command.cancel()

    def test_no_service(self) -> None:
        """without a service the first call fails within seconds, and says where it looked"""
        with self.assertLogs("berth", "WARNING") as told, self.assertRaises(ConnectionFailedError) as caught:
            with Berth("http://127.0.0.1:9") as berth:
                berth.open("none")
        self.assertIn("http://127.0.0.1:9", str(caught.exception))
        self.assertIn("trying again", told.output[0])

    def test_cancel(self) -> None:
        """a command that is left by its block is cancelled"""
        with Berth() as berth:
            ws = opened(berth)
            with ws.start(LONG) as command:
                for chunk in command:
                    self.assertEqual(chunk.text, "begun\n")
                    break
                so_far = [chunk.text for chunk in command.output(follow=False)]
                self.assertEqual("".join(so_far), "begun\n")
            result = ws.command(command.id).result()
            self.assertEqual((result.ok, result.exit_code, result.stdout), (False, -1, "begun\n"))

    def test_deadline(self) -> None:
        """who waits no longer is told so, and the command goes on"""
        with Berth() as berth:
            ws = opened(berth)
            with self.assertRaises(BerthError) as caught:
                ws.exec(LONG, session_id="late", wait_seconds=0.5)
            self.assertEqual(caught.exception.code, "deadline_exceeded")
            self.assertEqual((ws.command("late").status())["state"], "running")

    def test_files(self) -> None:
        """files are written, read, listed, searched, patched, moved and removed"""
        path = "/home/user/notes.txt"
        with Berth() as berth:
            files = (opened(berth)).files
            written = files.write(path, "one\ntwo\n")
            self.assertEqual((written["bytes_written"], written["durable"]), (8, True))
            self.assertEqual(files.read_text(path), "one\ntwo\n")
            self.assertEqual(files.read(path, offset=4, length=3), b"two")
            files.patch(path, edits=[{"old_text": "two", "new_text": "three"}])
            found = files.search("/home/user", "three")
            self.assertEqual([(match["path"], match["line"]) for match in found["matches"]], [(path, 2)])
            self.assertEqual((files.stat(path))["size"], 10)
            files.move(path, "/home/user/moved.txt")
            self.assertEqual((files.exists(path), files.exists("/home/user/moved.txt")), (False, True))
            self.assertIn("moved.txt", [entry["name"] for entry in (files.list("/home/user"))["entries"]])
            files.remove("/home/user/moved.txt")
            self.assertFalse(files.exists("/home/user/moved.txt"))
            self.assertEqual((files.mkdir("/home/user/folder"))["type"], "directory")

    def test_large_file(self) -> None:
        """a file larger than one request is whole, and streams back"""
        content = (b"berth" * (1 << 21))[: (7 << 20) + 12_345]
        with Berth() as berth:
            files = (opened(berth)).files
            written = files.write("/home/user/large", content)
            self.assertEqual((written["path"], written["bytes_written"]), ("/home/user/large", len(content)))
            self.assertTrue(b"".join([piece for piece in files.stream("/home/user/large")]) == content)
            self.assertEqual([entry["name"] for entry in (files.list("/home/user"))["entries"]], ["large"])

    def test_refusal(self) -> None:
        """a refusal is an error of its code, with reason and request id"""
        with Berth() as berth:
            ws = opened(berth)
            with self.assertRaises(NotFoundError) as caught:
                ws.files.read("/home/user/missing")
        error = caught.exception
        self.assertEqual((error.code, error.reason, error.status, error.retryable), ("not_found", "path_not_found", 404, False))
        self.assertTrue(error.request_id)

    def test_suspended(self) -> None:
        """a call on a suspended workspace resumes it, and runs once"""
        with Berth() as berth:
            ws = opened(berth)
            ws.exec(MARK, check=True)
            self.assertEqual((ws.suspend())["state"], "succeeded")
            self.assertEqual((ws.refresh())["observed_state"], "suspended")
            self.assertEqual((ws.exec(MARK, check=True)).stdout, "marked\n")
            self.assertEqual(ws.files.read_text("/home/user/marks"), "x\nx\n")
            still = berth.workspace(ws.id, wake=False)
            ws.suspend()
            with self.assertRaises(BerthError) as caught:
                still.exec(["true"])
            self.assertEqual(caught.exception.code, "workspace_not_running")
            ws.resume()
            self.assertEqual(ws.view["observed_state"], "running")

    def test_found(self) -> None:
        """it is found by key and in lists, and its key is never used again"""
        with Berth() as berth:
            ws = opened(berth)
            found = berth.find(ws.key)
            self.assertEqual(found and found.id, ws.id)
            self.assertIsNone(berth.find("nobody"))
            views = berth.workspaces(key_prefix=ws.key).all()
            self.assertEqual([view["id"] for view in views], [ws.id])
            with self.assertRaisesRegex(TypeError, r"what all\(\) returns"):
                len(berth.workspaces())
            ws.delete()
            with self.assertRaises(ConflictError) as caught:
                berth.open(ws.key, template="base")
            self.assertEqual(caught.exception.reason, "workspace_deleted")

    def test_copies(self) -> None:
        """a fork goes on from the same files, and a snapshot is restored"""
        with Berth() as berth:
            ws = opened(berth)
            ws.files.write("/home/user/before", "shared")
            fork = ws.fork(f"{ws.key}-fork")
            self.assertNotEqual(fork.id, ws.id)
            self.assertEqual(fork.files.read_text("/home/user/before"), "shared")
            kept = ws.snapshot(label="kept")
            ws.files.write("/home/user/before", "changed")
            ws.restore(kept["result"]["checkpoint_id"])
            self.assertEqual(ws.files.read_text("/home/user/before"), "shared")
            self.assertEqual([each["label"] for each in ws.checkpoints().all()], ["kept"])
            kinds = [each["kind"] for each in ws.operations()]
            self.assertEqual(kinds, ["restore", "snapshot"])
            self.assertEqual((berth.wait_for_operation(kept["id"]))["state"], "succeeded")

    def test_file_first(self) -> None:
        """commands of a file-first workspace are executions"""
        with Berth() as berth:
            ws = opened(berth, mode="file_first")
            result = ws.exec(MARK)
            assert result.execution is not None
            self.assertEqual((result.stdout, result.ok, result.execution["tree_revision"]), ("marked\n", True, 1))
            self.assertEqual((ws.exec(["nothing"], check=False)).state, "failed_to_start")
            with self.assertRaises(CommandError):
                ws.exec(["nothing"])

    def test_terminal(self) -> None:
        """a terminal shows what is typed, is left and taken up again, and closes"""
        with Berth() as berth:
            ws = opened(berth)
            shell = ws.shell(["cat"])
            shell.write("hello\n")
            shown = ""
            for chunk in shell:
                shown += chunk.text
                if "hello" in shown:
                    break
            shell.detach()
            again, shown = ws.terminal(shell.id), ""
            for chunk in again:
                shown += chunk.text
                if "hello" in shown:
                    break
            again.close()
            last = ws.terminal(shell.id, offset=2)
            self.assertEqual("".join([chunk.text for chunk in last]), "llo\n")
            assert last.ending is not None
            self.assertEqual(last.ending["state"], "exited")

    def test_nouns(self) -> None:
        """secrets belong to the project of the key, and any route can be asked"""
        with Berth() as berth:
            name = f"S_{uuid.uuid4().hex}"
            created = berth.secrets.create(name, "hidden")
            self.assertEqual(created["name"], name)
            self.assertIn(name, [secret["name"] for secret in berth.secrets.list()])
            self.assertEqual((berth.me())["type"], "api_key")
            self.assertEqual(berth.api("GET", "/v1/client-versions"), berth.client_versions())


def opened(berth: Berth, mode: str | None = None) -> Workspace:
    return berth.open(f"python-{uuid.uuid4()}", template="base", mode=mode)


def history(seed: int) -> None:
    """Commands on one workspace, which is suspended meanwhile, over a network that fails a third of the time."""
    draw = random.Random(seed)
    with Berth(os.environ["BERTH_TEST_FAULTY_URL"]) as berth:
        ws = opened(berth)
        for name in ("a", "b", "c"):
            if draw.random() < 0.4:
                try:
                    ws.suspend()
                except BerthError:
                    pass  # it may be suspended already
            size = draw.randrange(20_000)
            result = ws.exec(["count", name, str(size)])
            ran = ws.files.read_text(f"/home/user/runs-{name}")
            if (result.ok, len(result.stdout_bytes), ran) != (True, size, "x"):
                raise AssertionError(f"seed {seed}: {result.exit_code}, {len(result.stdout_bytes)} of {size} bytes, ran {ran}")
            ws.files.write("/home/user/log", name, append=True)
        log = ws.files.read_text("/home/user/log")
        if log != "abc":
            raise AssertionError(f"seed {seed}: {log}")

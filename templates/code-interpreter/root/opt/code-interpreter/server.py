#!/usr/bin/python3
"""Runs Python in kernels that keep their variables, and answers with what it prints, shows and returns.

    POST   /execute                     {"code", "context"?, "timeout_seconds"?}  -> events, one JSON a line; ?stream=false: one JSON
    GET    /contexts                    -> {"contexts": [...]}
    POST   /contexts                    {"cwd"?}  -> 201, a kernel of its own
    POST   /contexts/{id}/interrupt     what runs in it ends with KeyboardInterrupt
    POST   /contexts/{id}/restart       its variables are gone
    DELETE /contexts/{id}
    GET    /health

Events are {"type": "stdout" | "stderr", "text"}, {"type": "display" | "result", "data": {mime type: value}}, {"type": "error", "name",
"value", "traceback"}, and at last {"type": "end", "status", "execution_count"}; status is ok, error, timeout or died. Whoever has the port
has the machine's user: there is no token, since the URL of a port asks for a credential.
"""
import asyncio
import json
import os
import queue
import secrets
import sys
import tempfile

from jupyter_client import AsyncKernelManager
from tornado import iostream, web

PORT = int(os.environ.get("CODE_INTERPRETER_PORT", "49999"))
HOME = os.path.expanduser("~")
CONTEXTS_MAX = 8
WAITING_MAX = 16
CODE_BYTES_MAX = 1 << 20
OUTPUT_BYTES_MAX = 64 << 20
TIMEOUT_SECONDS_DEFAULT = 300
TIMEOUT_SECONDS_MAX = 24 * 3600
KERNEL_SECONDS = 60
GRACE_SECONDS = 10


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


class Context:
    """One kernel. What is asked of it runs one after the other."""

    def __init__(self, name, cwd):
        self.id, self.cwd = name, cwd
        self.turn = asyncio.Lock()
        self.waiting = 0
        self.manager = self.client = None

    async def start(self):
        # Unix sockets: connections of the loopback would not be everybody's business, and a file's are seen by nobody else.
        folder = tempfile.mkdtemp(prefix="kernel-")
        self.manager = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=os.path.join(folder, "s"))
        await self.manager.start_kernel(cwd=self.cwd)
        await self.connect()

    async def connect(self):
        if self.client is not None:
            self.client.stop_channels()
        self.client = self.manager.client()
        self.client.start_channels()
        await self.client.wait_for_ready(timeout=KERNEL_SECONDS)

    async def restart(self):
        await self.manager.restart_kernel(now=True)
        await self.connect()

    async def stop(self):
        if self.client is not None:
            self.client.stop_channels()
        if self.manager is not None and self.manager.has_kernel:
            await self.manager.shutdown_kernel(now=True)

    async def interrupt(self):
        await self.manager.interrupt_kernel()

    def view(self):
        return {"id": self.id, "cwd": self.cwd, "language": "python", "busy": self.turn.locked()}


CONTEXTS = {}


async def open_context(name, cwd):
    context = CONTEXTS[name] = Context(name, cwd)
    try:
        await context.start()
    except BaseException:
        CONTEXTS.pop(name, None)
        await context.stop()
        raise
    return context


async def events_of(context, code, timeout_seconds):
    """What one piece of code leads to, as it comes."""
    loop = asyncio.get_running_loop()
    request = context.client.execute(code, allow_stdin=False, store_history=True)
    deadline = loop.time() + timeout_seconds
    status, count, sent = "ok", None, 0
    timed_out = False
    while True:
        try:
            message = await context.client.get_iopub_msg(timeout=min(1, max(0.01, deadline - loop.time())))
        except queue.Empty:
            if not await context.manager.is_alive():
                await context.restart()
                status = "died"
                break
            if loop.time() >= deadline and not timed_out:
                timed_out, deadline = True, loop.time() + GRACE_SECONDS
                await context.interrupt()
            elif loop.time() >= deadline:
                await context.restart()  # it does not listen
                break
            continue
        if loop.time() >= deadline and not timed_out:
            timed_out, deadline = True, loop.time() + GRACE_SECONDS
            await context.interrupt()
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            break
        event = event_of(kind, content)
        if kind == "execute_input":
            count = content["execution_count"]
        if kind == "error":
            status = "error"
        if event is None:
            continue
        size = len(json.dumps(event))
        if sent <= OUTPUT_BYTES_MAX < sent + size:
            yield {"type": "stderr", "text": f"[more than {OUTPUT_BYTES_MAX} bytes of output are left out]\n"}
        sent += size
        if sent <= OUTPUT_BYTES_MAX:
            yield event
    if timed_out:
        status = "timeout"
    yield {"type": "end", "status": status, "execution_count": count}


def event_of(kind, content):
    if kind == "stream":
        return {"type": content["name"], "text": content["text"]}
    if kind == "execute_result":
        return {"type": "result", "data": content["data"]}
    if kind in ("display_data", "update_display_data"):
        return {"type": "display", "data": content["data"]}
    if kind == "error":
        return {"type": "error", "name": content["ename"], "value": content["evalue"], "traceback": content["traceback"]}
    return None


class Handler(web.RequestHandler):
    def answer(self, status, body):
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(body) + "\n")

    def body(self, **fields):
        """The JSON of the request, whose fields are those and no others."""
        try:
            given = json.loads(self.request.body or b"{}")
        except ValueError:
            raise Refused(400, "bad_request", "The body is not JSON") from None
        if not isinstance(given, dict):
            raise Refused(422, "validation_failed", "The body is not an object")
        for name, value in given.items():
            if name not in fields:
                raise Refused(422, "validation_failed", f"{name} is not a known field")
            if isinstance(value, bool) or not isinstance(value, fields[name]):
                raise Refused(422, "validation_failed", f"{name} is of the wrong type")
        return given

    def context(self, name):
        if name not in CONTEXTS:
            raise Refused(404, "not_found", "There is no such context")
        return CONTEXTS[name]

    def write_error(self, status_code, **given):
        error = given.get("exc_info", (None, None, None))[1]
        if isinstance(error, Refused):
            return self.answer(error.status, {"error": {"code": error.code, "message": str(error)}})
        code = {404: "not_found", 405: "not_found"}.get(status_code, "internal_error")
        return self.answer(status_code, {"error": {"code": code, "message": self._reason}})

    def log_exception(self, typ, value, tb):
        if not isinstance(value, (Refused, iostream.StreamClosedError)):
            super().log_exception(typ, value, tb)


class Health(Handler):
    def get(self):
        self.answer(200, {"status": "ok"})


class Contexts(Handler):
    def get(self):
        self.answer(200, {"contexts": [context.view() for context in CONTEXTS.values()]})

    async def post(self):
        cwd = self.body(cwd=str).get("cwd", HOME)
        if not os.path.isdir(cwd):
            raise Refused(422, "validation_failed", "cwd is no directory")
        if len(CONTEXTS) >= CONTEXTS_MAX:
            raise Refused(409, "too_many_contexts", f"There are {CONTEXTS_MAX} contexts: delete one first")
        self.answer(201, (await open_context(secrets.token_hex(8), cwd)).view())


class OneContext(Handler):
    async def delete(self, name):
        context = self.context(name)
        if name == "default":
            raise Refused(409, "default_context", "The default context cannot be deleted: restart it")
        del CONTEXTS[name]
        await context.stop()
        self.set_status(204)


class Interrupt(Handler):
    async def post(self, name):
        context = self.context(name)
        await context.interrupt()
        self.answer(200, context.view())


class Restart(Handler):
    async def post(self, name):
        context = self.context(name)
        await context.interrupt()
        async with context.turn:
            await context.restart()
        self.answer(200, context.view())


class Execute(Handler):
    context_in_use = None

    async def post(self):
        given = self.body(code=str, context=str, timeout_seconds=(int, float))
        code, timeout_seconds = given.get("code"), given.get("timeout_seconds", TIMEOUT_SECONDS_DEFAULT)
        if code is None or len(code.encode()) > CODE_BYTES_MAX:
            raise Refused(422, "validation_failed", f"code is a text of at most {CODE_BYTES_MAX} bytes")
        if not 0 < timeout_seconds <= TIMEOUT_SECONDS_MAX:
            raise Refused(422, "validation_failed", f"timeout_seconds is between 0 and {TIMEOUT_SECONDS_MAX}")
        context = self.context(given.get("context", "default"))
        if context.waiting >= WAITING_MAX:
            raise Refused(429, "too_many_executions", "Too many executions wait for this context")
        streams = self.get_query_argument("stream", "true") != "false"
        context.waiting += 1
        try:
            async with context.turn:
                await self.run(context, code, timeout_seconds, streams)
        finally:
            context.waiting -= 1

    async def run(self, context, code, timeout_seconds, streams):
        if not streams:
            self.context_in_use = context
            return self.answer(200, await gathered(events_of(context, code, timeout_seconds)))
        self.set_header("Content-Type", "application/x-ndjson")
        self.context_in_use = context
        try:
            async for event in events_of(context, code, timeout_seconds):
                if self.context_in_use is None:
                    continue  # nobody reads; the kernel was interrupted, and its answers are not the next one's
                self.write(json.dumps(event) + "\n")
                await self.flush()
        except iostream.StreamClosedError:
            await settled(context)
        self.context_in_use = None

    def on_connection_close(self):
        """Whoever leaves ends what they asked for."""
        context, self.context_in_use = self.context_in_use, None
        if context is not None:
            asyncio.get_running_loop().create_task(context.interrupt())


async def settled(context):
    """Waits until the kernel has ended what nobody reads."""
    async for _ in events_of(context, "", GRACE_SECONDS):
        pass


async def gathered(events):
    """All events as one answer."""
    texts, results, error, end = {"stdout": [], "stderr": []}, [], None, {}
    async for event in events:
        kind = event["type"]
        if kind in texts:
            texts[kind].append(event["text"])
        elif kind in ("result", "display"):
            results.append({"type": kind, "data": event["data"]})
        elif kind == "error":
            error = {name: event[name] for name in ("name", "value", "traceback")}
        else:
            end = {"status": event["status"], "execution_count": event["execution_count"]}
    return {"stdout": "".join(texts["stdout"]), "stderr": "".join(texts["stderr"]), "results": results, "error": error, **end}


async def main():
    await open_context("default", HOME)
    application = web.Application([
        (r"/health", Health),
        (r"/contexts", Contexts),
        (r"/contexts/([a-z0-9]+)", OneContext),
        (r"/contexts/([a-z0-9]+)/interrupt", Interrupt),
        (r"/contexts/([a-z0-9]+)/restart", Restart),
        (r"/execute", Execute),
    ], default_handler_class=web.ErrorHandler, default_handler_args={"status_code": 404})
    application.listen(PORT, max_body_size=2 * CODE_BYTES_MAX)
    print(f"ready on port {PORT}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

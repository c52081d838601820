"""Calls each public method of the client for asyncio on real machines. Of the one for threads the same is called.

BERTH_URL and BERTH_API_KEY say where and as what; BERTH_TEST_PERSON is the session of an owner of the organization.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from contextlib import aclosing
from typing import Any

from berth import AsyncBerth, BerthError
from berth._async import platform
from recorded import Recorded, Seen, same, unique
from run import say

LONG = ["sleep", "600"]


async def refused(call: Any) -> None:
    """What is refused is answered, too."""
    try:
        await call()
    except BerthError as error:
        assert error.status > 0, error
        return
    raise AssertionError("it was not refused")


async def opened(berth: Any, ws: Any, person: Any) -> None:
    """a workspace is opened, found, listed and looked at"""
    same((await berth.workspace(ws.id)).id, ws.id)
    same((await berth.find(ws.key)).id, ws.id)
    views = berth.workspaces(key_prefix=ws.key)
    same(len((await views.page())["data"]), 1)
    same([view["id"] for view in await views.all()], [ws.id])
    async for view in views:
        same(view["id"], ws.id)
    same((await ws.refresh())["key"], ws.key)


async def told(berth: Any, ws: Any, person: Any) -> None:
    """who calls, and what the service supports, is told, any route is reached, and the operator told"""
    same((await berth.me())["type"], "api_key")
    same(await berth.api("GET", "/v1/client-versions"), await berth.client_versions())
    assert (await berth.feedback(f"A test says so: {unique('feedback')}.", category="other"))["id"]


async def commands(berth: Any, ws: Any, person: Any) -> None:
    """a command is run, started, asked, signalled, cancelled and left"""
    same((await ws.exec(["echo", "out"])).stdout, "out\n")
    command = await ws.start(["echo", "started"])
    same("".join([chunk.text async for chunk in command.output()]), "started\n")
    same("".join([chunk.text async for chunk in ws.command(command.id)]), "started\n")
    same((await command.result()).exit_code, 0)
    same((await command.status())["state"], "exited")
    signalled = await ws.start(LONG)
    await signalled.signal("SIGTERM")
    same((await signalled.result()).ok, False)
    cancelled = await ws.start(LONG)
    await cancelled.cancel()
    same((await cancelled.result()).ok, False)
    async with await ws.start(LONG) as left:
        pass
    same((await left.result()).ok, False)


async def lists(berth: Any, ws: Any, person: Any) -> None:
    """a command and a terminal whose ids are lost are found in lists"""
    command = await ws.start(LONG)
    newest = (await ws.commands(state="running", limit=1).page())["data"][0]
    same((newest["session_id"], newest["argv"], newest["ended_at"]), (command.id, LONG, None))
    await command.cancel()
    await command.result()
    assert command.id in [each["session_id"] for each in await ws.commands(limit=2).all()]
    assert command.id not in [each["session_id"] for each in await ws.commands(state="running").all()]
    shell = await ws.shell(["cat"])
    assert shell.id in [each["session_id"] for each in await ws.terminals(state="running").all()]
    await shell.close()


async def stdin(berth: Any, ws: Any, person: Any) -> None:
    """standard input that is open is written and ended"""
    command = await ws.start(["cat"], stdin_open=True)
    await command.write("typed")
    await command.end()
    same((await command.result()).stdout, "typed")


async def terminals(berth: Any, ws: Any, person: Any) -> None:
    """a terminal is opened, typed into, resized, asked, left, taken up and closed"""
    shell = await ws.shell(["cat"])
    await shell.write("hello\n")
    await shell.resize(cols=100, rows=30)
    async for chunk in shell:
        if "hello" in chunk.text:
            break
    same((await shell.status())["state"], "running")
    await shell.detach()
    again = ws.terminal(shell.id)
    await again.close()
    async with await ws.shell(["cat"]):
        pass


async def files(berth: Any, ws: Any, person: Any) -> None:
    """files are written, read, listed, moved, searched, patched and removed"""
    files, at = ws.files, "/home/user/file"
    await files.write(at, "one\n")
    same(await files.read_text(at), "one\n")
    same(await files.read(at), b"one\n")
    same(b"".join([piece async for piece in files.stream(at)]), b"one\n")
    await files.patch(at, edits=[{"old_text": "one", "new_text": "two"}])
    same(len((await files.search("/home/user", "two"))["matches"]), 1)
    same((await files.mkdir("/home/user/folder"))["type"], "directory")
    await files.move(at, "/home/user/folder/moved")
    same((await files.stat("/home/user/folder/moved"))["size"], 4)
    same([entry["name"] for entry in (await files.list("/home/user/folder"))["entries"]], ["moved"])
    await files.remove("/home/user/folder/moved")
    same(await files.exists("/home/user/folder/moved"), False)


async def watches(berth: Any, ws: Any, person: Any) -> None:
    """a directory is watched"""
    async with aclosing(ws.files.watch("/home/user")) as events:
        async for event in events:
            same(event, {"type": "start"})
            break


async def tars(berth: Any, ws: Any, person: Any) -> None:
    """a folder goes out as a tar, and comes in"""
    await ws.files.write("/home/user/out/file", "content", create_parents=True)
    tar = b"".join([piece async for piece in ws.files.read_tar("/home/user/out")])
    same((await ws.files.write_tar("/home/user/in", tar, create_parents=True))["entries"], 1)
    same(await ws.files.read_text("/home/user/in/file"), "content")


async def git(berth: Any, ws: Any, person: Any) -> None:
    """a repository is looked at and committed to; one that no network reaches is not cloned"""
    script = "git init -q repository && cd repository && echo x > file && git add file"
    await ws.exec(["sh", "-c", script], check=True)
    same(len((await ws.git.status("/home/user/repository"))["files"]), 1)
    author = {"name": "T", "email": "t@example.com"}
    same(len((await ws.git.commit("/home/user/repository", "first", author=author))["commit"]), 40)
    await refused(lambda: ws.git.clone("https://127.0.0.1:9/none.git", "/home/user/none"))


async def browser(berth: Any, ws: Any, person: Any) -> None:
    """a browser that the template does not have is refused"""
    await refused(lambda: ws.browser.screenshot("http://127.0.0.1:1/"))
    await refused(lambda: ws.browser.content("http://127.0.0.1:1/"))


async def processes(berth: Any, ws: Any, person: Any) -> None:
    """processes are listed and signalled, and changes told"""
    command = await ws.start(LONG)
    pid = (await command.status())["pid"]
    assert pid in [each["pid"] for each in (await ws.processes.list())["processes"]]
    await ws.processes.signal(pid, "SIGKILL")
    same((await command.result()).ok, False)
    await ws.files.write("/home/user/changed", "x")
    changed = await ws.changes.list(path_prefix="/home/user").all()
    assert "/home/user/changed" in [each["path"] for each in changed]
    assert await ws.changes.summary()


async def idleness(berth: Any, ws: Any, person: Any) -> None:
    """idleness is asked and put off"""
    assert await ws.idle.get()
    assert (await ws.idle.keepalive(60))["keepalive_until"]
    same((await ws.idle.wake_hint())["residency"], "resident")
    same((await ws.set_idle_policy("never"))["id"], ws.id)
    assert (await ws.suspend_when_idle(3600))["suspend_request"]
    same((await ws.cancel_suspend_when_idle())["id"], ws.id)


async def ports(berth: Any, ws: Any, person: Any) -> None:
    """ports are exposed, let in, and closed"""
    await ws.ports.expose(8000)
    same((await ws.ports.get(8000))["port"], 8000)
    same(len(await ws.ports.list().all()), 1)
    assert (await ws.ports.token(8000))["token"]
    assert (await ws.ports.link(8000))["url"].startswith("http")
    assert await ws.ports.callback(8000)
    await ws.ports.revoke_callback(8000)
    await ws.ports.close(8000)


async def lifecycle(berth: Any, ws: Any, person: Any) -> None:
    """it is suspended, resumed, kept, restored, forked, adopted, reset and deleted, and its operations are told"""
    id = (await ws.suspend())["id"]
    same((await berth.operation(id))["kind"], "suspend")
    same((await berth.wait_for_operation(id))["state"], "succeeded")
    same((await ws.resume())["observed_state"], "running")
    kept = await ws.snapshot(label="kept")
    same([each["label"] for each in await ws.checkpoints().all()].count("kept"), 1)
    await ws.restore(kept["result"]["checkpoint_id"])
    fork = await ws.fork(unique("fork"))
    assert fork.id != ws.id
    assert (await ws.adopt(fork))["kind"] == "adopt"
    await ws.adopt(fork.id, delete_fork=True)
    assert len(await ws.operations().all()) >= 3
    await ws.delete_checkpoint(kept["result"]["checkpoint_id"])
    await ws.reset()


async def sessions(berth: Any, ws: Any, person: Any) -> None:
    """a session workspace is closed, and ends with its block"""
    one = await berth.open(unique("session"), template="base", lifetime="session")
    await one.close()
    async with await berth.open(unique("session"), template="base", lifetime="session") as other:
        same(other.view["lifetime"], "session")


async def clients(berth: Any, ws: Any, person: Any) -> None:
    """a client is closed, by itself and by its block"""
    other = Recorded(AsyncBerth(), "berth", berth._seen)
    await other.close()
    async with Recorded(AsyncBerth(), "berth", berth._seen) as another:
        same((await another.me())["type"], "api_key")


async def trees(berth: Any, ws: Any, person: Any) -> None:
    """a file-first workspace has revisions, which are compared and restored"""
    tree = await berth.open(unique("tree"), template="base", mode="file_first")
    await tree.files.write("/home/user/file", "one")
    await tree.files.write("/home/user/file", "two")
    assert len(await tree.tree.revisions().all()) >= 2
    same([each["path"] for each in await tree.tree.diff(1, 2).all()], ["/home/user/file"])
    same((await tree.tree.restore(1))["tree_revision"], 3)
    ran = await tree.exec(["cat", "/home/user/file"])
    same((await tree.execution(ran.id))["state"], "succeeded")
    newest = (await tree.executions(state="ended", limit=1).page())["data"][0]
    same((newest["execution_id"], newest["argv"], newest["exit_code"]), (ran.id, ["cat", "/home/user/file"], 0))
    fork = await tree.fork(unique("tree-fork"))
    await fork.delete()
    await tree.delete()


async def secrets(berth: Any, ws: Any, person: Any) -> None:
    """secrets are made, read, changed, rotated, bound and erased"""
    name = unique("SECRET").replace("-", "_")
    id = (await berth.secrets.create(name, "hidden"))["id"]
    assert name in [each["name"] for each in await berth.secrets.list().all()]
    same((await berth.secrets.get(id))["name"], name)
    await berth.secrets.update(id, description="of a test")
    await berth.secrets.rotate(id, "another")
    same(len(await berth.secrets.versions(id).all()), 2)
    same([each["name"] for each in (await ws.secrets.set([name]))["secrets"]], [name])
    same((await ws.secrets.get())["secrets"][0]["status"], "available")
    await ws.secrets.set([])
    await berth.secrets.delete(id)


async def egress(berth: Any, ws: Any, person: Any) -> None:
    """egress is said for a project and for a workspace"""
    version = (await berth.egress.set("allow_all"))["version"]
    same((await berth.egress.get())["version"], version)
    assert await berth.egress.versions().all()
    await ws.egress.set("deny_all")
    assert await ws.egress.get()
    assert await ws.egress.versions().all()
    assert await ws.egress.denials()
    await ws.egress.clear()


async def volumes(berth: Any, ws: Any, person: Any) -> None:
    """volumes are made, attached, detached and deleted"""
    volume = await berth.volumes.create(unique("volume"), 1)
    same((await berth.volumes.get(volume["id"]))["id"], volume["id"])
    assert volume["id"] in [each["id"] for each in await berth.volumes.list().all()]
    await ws.volumes.attach(volume, "/srv/volume")
    same(len(await ws.volumes.list().all()), 1)
    await ws.volumes.detach(volume["id"])
    await berth.volumes.delete(volume["id"])


async def builds(berth: Any, ws: Any, person: Any) -> None:
    """a template is built from an upload, tried, published, listed and archived, and a build cancelled"""
    templates, slug = berth.templates, unique("template")
    await ws.exec(["sh", "-c", "echo content > file && tar -cf context.tar file"], check=True)
    upload = await templates.upload(await ws.files.read("/home/user/context.tar"))
    begun = await templates.build(slug, dockerfile="FROM base\nCOPY file /srv/\n", upload_id=upload["id"])
    assert "step 1 of 1" in "".join([text async for text in templates.build_log(begun["id"])])
    same((await templates.wait_for_build(begun["id"]))["state"], "succeeded")
    same((await templates.get_build(begun["id"]))["version"], 1)
    await templates.delete_upload(upload["id"])
    tried = await templates.test(slug, 1)
    same(await tried.files.read_text("/srv/file"), "content\n")
    await tried.close()
    same((await person.templates.publish(slug, 1))["version"], 1)
    same((await templates.get(slug))["slug"], slug)
    assert slug in [each["slug"] for each in await templates.list().all()]
    same(len(await templates.versions(slug).all()), 1)
    same((await templates.version(slug, 1))["version"], 1)
    same([each["path"] for each in await templates.files(slug, 1, "/srv").all()], ["/srv/file"])
    assert "/srv/file" in [each["path"] for each in await templates.diff(slug, 1, "base@1").all()]
    assert (await person.templates.archive(slug, 1))["archived_at"]
    assert (await person.templates.archive_template(slug))["archived_at"]
    other = await templates.build(unique("template"), dockerfile="FROM base\nRUN sleep 600\n")
    same((await templates.cancel_build(other["id"]))["state"], "canceled")


async def drafts(berth: Any, ws: Any, person: Any) -> None:
    """a draft is opened, captured, tried, published and discarded"""
    drafts, slug = berth.templates.drafts, unique("draft")
    draft = await drafts.open(slug, base="base@1")
    same(draft.view["purpose"], "template_draft")
    same((await drafts.get(slug))["workspace_id"], draft.id)
    await draft.files.write("/home/user/name", "first")
    first = await drafts.capture(slug, label="with a name")
    same(first["label"], "with a name")
    await draft.files.write("/home/user/name", "second")
    second = await drafts.capture(slug)
    same([each["id"] for each in await drafts.states(slug).all()], [second["id"], first["id"]])
    tried = await drafts.test(slug, state_id=first["id"])
    same(await tried.files.read_text("/home/user/name"), "first")
    same([each["id"] for each in await drafts.test_instances(slug).all()], [tried.id])
    build = await drafts.publish(slug, state_id=second["id"], auto_publish=True)
    same((await berth.templates.wait_for_build(build["id"]))["state"], "succeeded")
    same((await drafts.discard(slug))["kind"], "delete")
    same((await tried.refresh())["ended_reason"], "draft_discarded")


async def saved(berth: Any, ws: Any, person: Any) -> None:
    """a workspace is saved as a template"""
    build = await ws.save_as_template(unique("saved"))
    same((await berth.templates.wait_for_build(build["id"]))["state"], "succeeded")


async def recipes(berth: Any, ws: Any, person: Any) -> None:
    """languages and packages that recipes may name are told"""
    assert "node" in [each["name"] for each in await berth.templates.languages()]
    # A service without a package source, which is a setting, refuses.
    try:
        await berth.templates.packages("git")
    except BerthError as error:
        assert error.status > 0, error


async def records(berth: Any, ws: Any, person: Any) -> None:
    """usage, inputs, organization, projects and records are told"""
    assert await berth.usage.summary()
    assert await berth.usage.series({"granularity": "day"})
    assert await berth.usage.estimate({"cpu_millis": 1000})
    assert await person.usage.spend()
    same((await berth.usage.spend_policy())["overage_enabled"], False)
    assert (await berth.usage.entitlements())["entitlements"]
    assert (await berth.usage.subscription())["plan"]
    await berth.usage.grants().all()
    await berth.usage.plans().all()
    assert await ws.usage()
    same(await ws.inputs(), {})
    same((await ws.agent_sessions().all())[0]["agent_label"], "default")
    organization = await berth.organizations.get()
    same((await berth.organizations.list().all())[0]["id"], organization["id"])
    assert await berth.organizations.projects().all()
    same([each["id"] for each in await berth.organizations.workspaces(key_prefix=ws.key).all()], [ws.id])
    assert (await berth.projects.get())["id"]
    made = await person.projects.create(unique("project"))
    same((await person.projects.update(project=made["id"], name="Renamed"))["name"], "Renamed")
    assert (await person.organizations.audit().page())["data"]


async def people(berth: Any, ws: Any, person: Any) -> None:
    """people are invited, listed, changed and removed; keys made, changed and revoked"""
    project = (await berth.me())["api_key"]["project_id"]
    email = f"{unique('guest')}@example.com"
    invited = await person.members.invite(email=email, role="member")
    assert email in [each["email"] for each in await person.members.invitations().all()]
    # The mail was sent a moment ago.
    await refused(lambda: person.members.resend_invitation(invited["id"]))
    await person.members.delete_invitation(invited["id"])
    owner = (await person.members.list().all())[0]["person_id"]
    # The last owner of an organization can be neither changed nor removed.
    await refused(lambda: person.members.update(owner, role="member"))
    await refused(lambda: person.members.remove(owner))
    key = await person.keys.create(["exec"], name="made", project=project)
    assert key["api_key"].startswith("sfk_")
    assert key["id"] in [each["id"] for each in await person.keys.list(project=project).all()]
    same((await person.keys.get(key["id"], project=project))["name"], "made")
    await person.keys.update(key["id"], name="renamed", project=project)
    await person.keys.revoke(key["id"], project=project)
    async with AsyncBerth(api_key=key["api_key"]) as revoked:
        await refused(revoked.me)


STEPS = [
    *(opened, told, commands, lists, stdin, terminals, files, watches, tars, git, browser, processes, idleness, ports, lifecycle),
    *(sessions, clients, trees, secrets, egress, volumes, builds, drafts, saved, recipes, records, people),
]


async def main() -> None:
    """Prints a line of JSON for each step, and last one of what was asked for."""
    seen = Seen()
    seen.connections_of(platform)
    async with AsyncBerth() as berth, AsyncBerth(api_key=os.environ["BERTH_TEST_PERSON"]) as person:
        seen.requests_of(berth)
        seen.requests_of(person)
        for step in STEPS:
            began = time.monotonic()
            try:
                recorded = Recorded(berth, "berth", seen)
                ws = await recorded.open(unique("methods"), template="base")
                await step(recorded, ws, Recorded(person, "berth", seen))
                await ws.delete()
                why = ""
            except Exception:
                why = traceback.format_exc()
            say(step.__doc__ or step.__name__, why, time.monotonic() - began)
    print(json.dumps({"requests": sorted(seen.requests), "left_out": sorted(seen.there - seen.called)}))

# Made by tools/sync.py from tests/methods_async.py. Do not change it by hand.
"""Calls each public method of the client for asyncio on real machines. Of the one for threads the same is called.

BERTH_URL and BERTH_API_KEY say where and as what; BERTH_TEST_PERSON is the session of an owner of the organization.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from contextlib import closing
from typing import Any

from berth import Berth, BerthError
from berth._sync import platform
from recorded import Recorded, Seen, same, unique
from run import say

LONG = ["sleep", "600"]


def refused(call: Any) -> None:
    """What is refused is answered, too."""
    try:
        call()
    except BerthError as error:
        assert error.status > 0, error
        return
    raise AssertionError("it was not refused")


def opened(berth: Any, ws: Any, person: Any) -> None:
    """a workspace is opened, found, listed and looked at"""
    same((berth.workspace(ws.id)).id, ws.id)
    same((berth.find(ws.key)).id, ws.id)
    views = berth.workspaces(key_prefix=ws.key)
    same(len((views.page())["data"]), 1)
    same([view["id"] for view in views.all()], [ws.id])
    for view in views:
        same(view["id"], ws.id)
    same((ws.refresh())["key"], ws.key)


def told(berth: Any, ws: Any, person: Any) -> None:
    """who calls, and what the service supports, is told, any route is reached, and the operator told"""
    same((berth.me())["type"], "api_key")
    same(berth.api("GET", "/v1/client-versions"), berth.client_versions())
    assert (berth.feedback(f"A test says so: {unique('feedback')}.", category="other"))["id"]


def commands(berth: Any, ws: Any, person: Any) -> None:
    """a command is run, started, asked, signalled, cancelled and left"""
    same((ws.exec(["echo", "out"])).stdout, "out\n")
    command = ws.start(["echo", "started"])
    same("".join([chunk.text for chunk in command.output()]), "started\n")
    same("".join([chunk.text for chunk in ws.command(command.id)]), "started\n")
    same((command.result()).exit_code, 0)
    same((command.status())["state"], "exited")
    signalled = ws.start(LONG)
    signalled.signal("SIGTERM")
    same((signalled.result()).ok, False)
    cancelled = ws.start(LONG)
    cancelled.cancel()
    same((cancelled.result()).ok, False)
    with ws.start(LONG) as left:
        pass
    same((left.result()).ok, False)


def lists(berth: Any, ws: Any, person: Any) -> None:
    """a command and a terminal whose ids are lost are found in lists"""
    command = ws.start(LONG)
    newest = (ws.commands(state="running", limit=1).page())["data"][0]
    same((newest["session_id"], newest["argv"], newest["ended_at"]), (command.id, LONG, None))
    command.cancel()
    command.result()
    assert command.id in [each["session_id"] for each in ws.commands(limit=2).all()]
    assert command.id not in [each["session_id"] for each in ws.commands(state="running").all()]
    shell = ws.shell(["cat"])
    assert shell.id in [each["session_id"] for each in ws.terminals(state="running").all()]
    shell.close()


def stdin(berth: Any, ws: Any, person: Any) -> None:
    """standard input that is open is written and ended"""
    command = ws.start(["cat"], stdin_open=True)
    command.write("typed")
    command.end()
    same((command.result()).stdout, "typed")


def terminals(berth: Any, ws: Any, person: Any) -> None:
    """a terminal is opened, typed into, resized, asked, left, taken up and closed"""
    shell = ws.shell(["cat"])
    shell.write("hello\n")
    shell.resize(cols=100, rows=30)
    for chunk in shell:
        if "hello" in chunk.text:
            break
    same((shell.status())["state"], "running")
    shell.detach()
    again = ws.terminal(shell.id)
    again.close()
    with ws.shell(["cat"]):
        pass


def files(berth: Any, ws: Any, person: Any) -> None:
    """files are written, read, listed, moved, searched, patched and removed"""
    files, at = ws.files, "/home/user/file"
    files.write(at, "one\n")
    same(files.read_text(at), "one\n")
    same(files.read(at), b"one\n")
    same(b"".join([piece for piece in files.stream(at)]), b"one\n")
    files.patch(at, edits=[{"old_text": "one", "new_text": "two"}])
    same(len((files.search("/home/user", "two"))["matches"]), 1)
    same((files.mkdir("/home/user/folder"))["type"], "directory")
    files.move(at, "/home/user/folder/moved")
    same((files.stat("/home/user/folder/moved"))["size"], 4)
    same([entry["name"] for entry in (files.list("/home/user/folder"))["entries"]], ["moved"])
    files.remove("/home/user/folder/moved")
    same(files.exists("/home/user/folder/moved"), False)


def watches(berth: Any, ws: Any, person: Any) -> None:
    """a directory is watched"""
    with closing(ws.files.watch("/home/user")) as events:
        for event in events:
            same(event, {"type": "start"})
            break


def tars(berth: Any, ws: Any, person: Any) -> None:
    """a folder goes out as a tar, and comes in"""
    ws.files.write("/home/user/out/file", "content", create_parents=True)
    tar = b"".join([piece for piece in ws.files.read_tar("/home/user/out")])
    same((ws.files.write_tar("/home/user/in", tar, create_parents=True))["entries"], 1)
    same(ws.files.read_text("/home/user/in/file"), "content")


def git(berth: Any, ws: Any, person: Any) -> None:
    """a repository is looked at and committed to; one that no network reaches is not cloned"""
    script = "git init -q repository && cd repository && echo x > file && git add file"
    ws.exec(["sh", "-c", script], check=True)
    same(len((ws.git.status("/home/user/repository"))["files"]), 1)
    author = {"name": "T", "email": "t@example.com"}
    same(len((ws.git.commit("/home/user/repository", "first", author=author))["commit"]), 40)
    refused(lambda: ws.git.clone("https://127.0.0.1:9/none.git", "/home/user/none"))


def browser(berth: Any, ws: Any, person: Any) -> None:
    """a browser that the template does not have is refused"""
    refused(lambda: ws.browser.screenshot("http://127.0.0.1:1/"))
    refused(lambda: ws.browser.content("http://127.0.0.1:1/"))


def processes(berth: Any, ws: Any, person: Any) -> None:
    """processes are listed and signalled, and changes told"""
    command = ws.start(LONG)
    pid = (command.status())["pid"]
    assert pid in [each["pid"] for each in (ws.processes.list())["processes"]]
    ws.processes.signal(pid, "SIGKILL")
    same((command.result()).ok, False)
    ws.files.write("/home/user/changed", "x")
    changed = ws.changes.list(path_prefix="/home/user").all()
    assert "/home/user/changed" in [each["path"] for each in changed]
    assert ws.changes.summary()


def idleness(berth: Any, ws: Any, person: Any) -> None:
    """idleness is asked and put off"""
    assert ws.idle.get()
    assert (ws.idle.keepalive(60))["keepalive_until"]
    same((ws.idle.wake_hint())["residency"], "resident")
    same((ws.set_idle_policy("never"))["id"], ws.id)
    assert (ws.suspend_when_idle(3600))["suspend_request"]
    same((ws.cancel_suspend_when_idle())["id"], ws.id)


def ports(berth: Any, ws: Any, person: Any) -> None:
    """ports are exposed, let in, and closed"""
    ws.ports.expose(8000)
    same((ws.ports.get(8000))["port"], 8000)
    same(len(ws.ports.list().all()), 1)
    assert (ws.ports.token(8000))["token"]
    assert (ws.ports.link(8000))["url"].startswith("http")
    assert ws.ports.callback(8000)
    ws.ports.revoke_callback(8000)
    ws.ports.close(8000)


def lifecycle(berth: Any, ws: Any, person: Any) -> None:
    """it is suspended, resumed, kept, restored, forked, adopted, reset and deleted, and its operations are told"""
    id = (ws.suspend())["id"]
    same((berth.operation(id))["kind"], "suspend")
    same((berth.wait_for_operation(id))["state"], "succeeded")
    same((ws.resume())["observed_state"], "running")
    kept = ws.snapshot(label="kept")
    same([each["label"] for each in ws.checkpoints().all()].count("kept"), 1)
    ws.restore(kept["result"]["checkpoint_id"])
    fork = ws.fork(unique("fork"))
    assert fork.id != ws.id
    assert (ws.adopt(fork))["kind"] == "adopt"
    ws.adopt(fork.id, delete_fork=True)
    assert len(ws.operations().all()) >= 3
    ws.delete_checkpoint(kept["result"]["checkpoint_id"])
    ws.reset()


def sessions(berth: Any, ws: Any, person: Any) -> None:
    """a session workspace is closed, and ends with its block"""
    one = berth.open(unique("session"), template="base", lifetime="session")
    one.close()
    with berth.open(unique("session"), template="base", lifetime="session") as other:
        same(other.view["lifetime"], "session")


def clients(berth: Any, ws: Any, person: Any) -> None:
    """a client is closed, by itself and by its block"""
    other = Recorded(Berth(), "berth", berth._seen)
    other.close()
    with Recorded(Berth(), "berth", berth._seen) as another:
        same((another.me())["type"], "api_key")


def trees(berth: Any, ws: Any, person: Any) -> None:
    """a file-first workspace has revisions, which are compared and restored"""
    tree = berth.open(unique("tree"), template="base", mode="file_first")
    tree.files.write("/home/user/file", "one")
    tree.files.write("/home/user/file", "two")
    assert len(tree.tree.revisions().all()) >= 2
    same([each["path"] for each in tree.tree.diff(1, 2).all()], ["/home/user/file"])
    same((tree.tree.restore(1))["tree_revision"], 3)
    ran = tree.exec(["cat", "/home/user/file"])
    same((tree.execution(ran.id))["state"], "succeeded")
    newest = (tree.executions(state="ended", limit=1).page())["data"][0]
    same((newest["execution_id"], newest["argv"], newest["exit_code"]), (ran.id, ["cat", "/home/user/file"], 0))
    fork = tree.fork(unique("tree-fork"))
    fork.delete()
    tree.delete()


def secrets(berth: Any, ws: Any, person: Any) -> None:
    """secrets are made, read, changed, rotated, bound and erased"""
    name = unique("SECRET").replace("-", "_")
    id = (berth.secrets.create(name, "hidden"))["id"]
    assert name in [each["name"] for each in berth.secrets.list().all()]
    same((berth.secrets.get(id))["name"], name)
    berth.secrets.update(id, description="of a test")
    berth.secrets.rotate(id, "another")
    same(len(berth.secrets.versions(id).all()), 2)
    same([each["name"] for each in (ws.secrets.set([name]))["secrets"]], [name])
    same((ws.secrets.get())["secrets"][0]["status"], "available")
    ws.secrets.set([])
    berth.secrets.delete(id)


def egress(berth: Any, ws: Any, person: Any) -> None:
    """egress is said for a project and for a workspace"""
    version = (berth.egress.set("allow_all"))["version"]
    same((berth.egress.get())["version"], version)
    assert berth.egress.versions().all()
    ws.egress.set("deny_all")
    assert ws.egress.get()
    assert ws.egress.versions().all()
    assert ws.egress.denials()
    ws.egress.clear()


def volumes(berth: Any, ws: Any, person: Any) -> None:
    """volumes are made, attached, detached and deleted"""
    volume = berth.volumes.create(unique("volume"), 1)
    same((berth.volumes.get(volume["id"]))["id"], volume["id"])
    assert volume["id"] in [each["id"] for each in berth.volumes.list().all()]
    ws.volumes.attach(volume, "/srv/volume")
    same(len(ws.volumes.list().all()), 1)
    ws.volumes.detach(volume["id"])
    berth.volumes.delete(volume["id"])


def builds(berth: Any, ws: Any, person: Any) -> None:
    """a template is built from an upload, tried, published, listed and archived, and a build cancelled"""
    templates, slug = berth.templates, unique("template")
    ws.exec(["sh", "-c", "echo content > file && tar -cf context.tar file"], check=True)
    upload = templates.upload(ws.files.read("/home/user/context.tar"))
    begun = templates.build(slug, dockerfile="FROM base\nCOPY file /srv/\n", upload_id=upload["id"])
    assert "step 1 of 1" in "".join([text for text in templates.build_log(begun["id"])])
    same((templates.wait_for_build(begun["id"]))["state"], "succeeded")
    same((templates.get_build(begun["id"]))["version"], 1)
    templates.delete_upload(upload["id"])
    tried = templates.test(slug, 1)
    same(tried.files.read_text("/srv/file"), "content\n")
    tried.close()
    same((person.templates.publish(slug, 1))["version"], 1)
    same((templates.get(slug))["slug"], slug)
    assert slug in [each["slug"] for each in templates.list().all()]
    same(len(templates.versions(slug).all()), 1)
    same((templates.version(slug, 1))["version"], 1)
    same([each["path"] for each in templates.files(slug, 1, "/srv").all()], ["/srv/file"])
    assert "/srv/file" in [each["path"] for each in templates.diff(slug, 1, "base@1").all()]
    assert (person.templates.archive(slug, 1))["archived_at"]
    assert (person.templates.archive_template(slug))["archived_at"]
    other = templates.build(unique("template"), dockerfile="FROM base\nRUN sleep 600\n")
    same((templates.cancel_build(other["id"]))["state"], "canceled")


def drafts(berth: Any, ws: Any, person: Any) -> None:
    """a draft is opened, captured, tried, published and discarded"""
    drafts, slug = berth.templates.drafts, unique("draft")
    draft = drafts.open(slug, base="base@1")
    same(draft.view["purpose"], "template_draft")
    same((drafts.get(slug))["workspace_id"], draft.id)
    draft.files.write("/home/user/name", "first")
    first = drafts.capture(slug, label="with a name")
    same(first["label"], "with a name")
    draft.files.write("/home/user/name", "second")
    second = drafts.capture(slug)
    same([each["id"] for each in drafts.states(slug).all()], [second["id"], first["id"]])
    tried = drafts.test(slug, state_id=first["id"])
    same(tried.files.read_text("/home/user/name"), "first")
    same([each["id"] for each in drafts.test_instances(slug).all()], [tried.id])
    build = drafts.publish(slug, state_id=second["id"], auto_publish=True)
    same((berth.templates.wait_for_build(build["id"]))["state"], "succeeded")
    same((drafts.discard(slug))["kind"], "delete")
    same((tried.refresh())["ended_reason"], "draft_discarded")


def saved(berth: Any, ws: Any, person: Any) -> None:
    """a workspace is saved as a template"""
    build = ws.save_as_template(unique("saved"))
    same((berth.templates.wait_for_build(build["id"]))["state"], "succeeded")


def recipes(berth: Any, ws: Any, person: Any) -> None:
    """languages and packages that recipes may name are told"""
    assert "node" in [each["name"] for each in berth.templates.languages()]
    # A service without a package source, which is a setting, refuses.
    try:
        berth.templates.packages("git")
    except BerthError as error:
        assert error.status > 0, error


def records(berth: Any, ws: Any, person: Any) -> None:
    """usage, inputs, organization, projects and records are told"""
    assert berth.usage.summary()
    assert berth.usage.series({"granularity": "day"})
    assert berth.usage.estimate({"cpu_millis": 1000})
    assert person.usage.spend()
    same((berth.usage.spend_policy())["overage_enabled"], False)
    assert (berth.usage.entitlements())["entitlements"]
    assert (berth.usage.subscription())["plan"]
    berth.usage.grants().all()
    berth.usage.plans().all()
    assert ws.usage()
    same(ws.inputs(), {})
    same((ws.agent_sessions().all())[0]["agent_label"], "default")
    organization = berth.organizations.get()
    same((berth.organizations.list().all())[0]["id"], organization["id"])
    assert berth.organizations.projects().all()
    same([each["id"] for each in berth.organizations.workspaces(key_prefix=ws.key).all()], [ws.id])
    assert (berth.projects.get())["id"]
    made = person.projects.create(unique("project"))
    same((person.projects.update(project=made["id"], name="Renamed"))["name"], "Renamed")
    assert (person.organizations.audit().page())["data"]


def people(berth: Any, ws: Any, person: Any) -> None:
    """people are invited, listed, changed and removed; keys made, changed and revoked"""
    project = (berth.me())["api_key"]["project_id"]
    email = f"{unique('guest')}@example.com"
    invited = person.members.invite(email=email, role="member")
    assert email in [each["email"] for each in person.members.invitations().all()]
    # The mail was sent a moment ago.
    refused(lambda: person.members.resend_invitation(invited["id"]))
    person.members.delete_invitation(invited["id"])
    owner = (person.members.list().all())[0]["person_id"]
    # The last owner of an organization can be neither changed nor removed.
    refused(lambda: person.members.update(owner, role="member"))
    refused(lambda: person.members.remove(owner))
    key = person.keys.create(["exec"], name="made", project=project)
    assert key["api_key"].startswith("sfk_")
    assert key["id"] in [each["id"] for each in person.keys.list(project=project).all()]
    same((person.keys.get(key["id"], project=project))["name"], "made")
    person.keys.update(key["id"], name="renamed", project=project)
    person.keys.revoke(key["id"], project=project)
    with Berth(api_key=key["api_key"]) as revoked:
        refused(revoked.me)


STEPS = [
    *(opened, told, commands, lists, stdin, terminals, files, watches, tars, git, browser, processes, idleness, ports, lifecycle),
    *(sessions, clients, trees, secrets, egress, volumes, builds, drafts, saved, recipes, records, people),
]


def main() -> None:
    """Prints a line of JSON for each step, and last one of what was asked for."""
    seen = Seen()
    seen.connections_of(platform)
    with Berth() as berth, Berth(api_key=os.environ["BERTH_TEST_PERSON"]) as person:
        seen.requests_of(berth)
        seen.requests_of(person)
        for step in STEPS:
            began = time.monotonic()
            try:
                recorded = Recorded(berth, "berth", seen)
                ws = recorded.open(unique("methods"), template="base")
                step(recorded, ws, Recorded(person, "berth", seen))
                ws.delete()
                why = ""
            except Exception:
                why = traceback.format_exc()
            say(step.__doc__ or step.__name__, why, time.monotonic() - began)
    print(json.dumps({"requests": sorted(seen.requests), "left_out": sorted(seen.there - seen.called)}))

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Berth, BerthError, Command, Terminal } from '../../sdk/typescript/src/main.ts'
import { methodsOf, recorded, type Seen } from './recorded.ts'
import { code, sh, type Step, unique } from './step.ts'
import { TEMPLATE_STEPS } from './template-steps.ts'
import { patience } from '../support/patience.ts'

export interface Callers {
  berth: Berth
  person: Berth | null
}

const STEPS: Step[] = [
  {
    fact: 'a workspace is opened, found, listed and looked at',
    async run(berth, ws) {
      assert.equal((await berth.workspace(ws.id)).id, ws.id)
      assert.equal((await berth.find(ws.key))?.key, ws.key)
      const list = berth.workspaces({ key_prefix: ws.key })
      assert.equal((await list.page()).data.length, 1)
      assert.equal((await list.all())[0]?.id, ws.id)
      for await (const { id } of list) assert.equal(id, ws.id)
      assert.equal((await ws.refresh()).key, ws.key)
    },
  },
  {
    fact: 'who calls, and what the service supports, is told, and any route is reached',
    async run(berth) {
      assert.equal((await berth.me()).type, 'api_key')
      assert.deepEqual(await berth.api('GET', '/v1/client-versions'), await berth.clientVersions())
    },
  },
  {
    fact: 'the operator is told what a caller thinks',
    async run(berth) {
      assert.ok((await berth.feedback({ message: `A test says so: ${unique('feedback')}.`, category: 'other' })).id)
    },
  },
  {
    fact: 'a command is run, started, asked, signalled, cancelled and left',
    async run(_berth, ws) {
      assert.equal((await ws.exec(['echo', 'out'])).stdout, 'out\n')
      const command = await ws.start(['echo', 'started'])
      for await (const { text } of command.output()) assert.equal(text, 'started\n')
      for await (const { text } of ws.command(command.id)) assert.equal(text, 'started\n')
      assert.equal((await command.result()).exitCode, 0)
      assert.equal((await command.status()).state, 'exited')
      const signalled = await ws.start(['sleep', '600'])
      await signalled.signal('SIGTERM')
      assert.equal((await signalled.result()).ok, false)
      const cancelled = await ws.start(['sleep', '600'])
      await cancelled.cancel()
      assert.equal((await cancelled.result()).ok, false)
      const left = await ws.start(['sleep', '600'])
      await left[Symbol.asyncDispose]()
      assert.equal((await left.result()).ok, false)
    },
  },
  {
    fact: 'a command and a terminal whose ids are lost are found in lists',
    async run(_berth, ws) {
      const { id } = await ws.start(['sleep', '600'])
      const [newest] = (await ws.commands({ state: 'running', limit: 1 }).page()).data
      assert.deepEqual([newest?.session_id, newest?.argv, newest?.cwd, newest?.ended_at], [id, ['sleep', '600'], '/home/user', null])
      await ws.command(id).cancel()
      await ws.command(id).result()
      assert.ok((await ws.commands({ limit: 2 }).all()).some(({ session_id, state }) => session_id === id && state !== 'running'))
      assert.ok(!(await ws.commands({ state: 'running' }).all()).some(({ session_id }) => session_id === id))
      const shell = await ws.shell({ argv: ['cat'] })
      assert.ok((await ws.terminals({ state: 'running' }).all()).some(({ session_id }) => session_id === shell.id))
      await shell.close()
    },
  },
  {
    fact: 'standard input that is open is written and ended',
    async run(_berth, ws) {
      const command = await ws.start(['cat'], { stdin_open: true })
      await command.write('typed')
      await command.end()
      assert.equal((await command.result()).stdout, 'typed')
    },
  },
  {
    fact: 'a terminal is opened, typed into, resized, asked, left, taken up and closed',
    async run(_berth, ws) {
      const shell = await ws.shell({ argv: ['cat'] })
      shell.write('hello\n')
      shell.resize({ cols: 100, rows: 30 })
      for await (const { text } of shell) if (text.includes('hello')) break
      assert.equal((await shell.status()).state, 'running')
      shell.detach()
      const again = ws.terminal(shell.id)
      await again.close()
      const other = await ws.shell({ argv: ['cat'] })
      await other[Symbol.asyncDispose]()
    },
  },
  {
    fact: 'files are written, read, listed, moved, searched, patched and removed',
    async run(_berth, { files }) {
      const at = '/home/user/file'
      await files.write(at, 'one\n')
      assert.equal(await files.readText(at), 'one\n')
      assert.equal((await files.read(at)).length, 4)
      for await (const part of files.stream(at)) assert.equal(part.length, 4)
      await files.patch(at, { edits: [{ old_text: 'one', new_text: 'two' }] })
      assert.equal((await files.search({ path: '/home/user', pattern: 'two' })).matches.length, 1)
      assert.equal((await files.mkdir('folder/deep')).type, 'directory')
      await files.write('~/folder/new/file.txt', 'relative')
      assert.equal(await files.readText('/home/user/folder/new/file.txt'), 'relative')
      await files.remove('folder', { recursive: true })
      assert.equal((await files.mkdir('/home/user/folder', { parents: false })).type, 'directory')
      await files.move(at, '/home/user/folder/moved')
      assert.equal((await files.stat('/home/user/folder/moved')).size, 4)
      assert.deepEqual((await files.list('/home/user/folder')).entries.map(({ name }) => name), ['moved']) // prettier-ignore
      await files.remove('/home/user/folder/moved')
      assert.equal(await files.exists('/home/user/folder/moved'), false)
    },
  },
  {
    fact: 'a directory is watched',
    async run(_berth, { files }) {
      for await (const event of files.watch('/home/user')) {
        assert.deepEqual(event, { type: 'start' })
        break
      }
    },
  },
  {
    fact: 'a folder goes out as a tar, and comes in',
    async run(_berth, { files }) {
      await files.write('/home/user/out/file', 'content', { create_parents: true })
      const tar = await new Response(await files.readTar('/home/user/out')).arrayBuffer()
      assert.equal((await files.writeTar('/home/user/in', new Uint8Array(tar), { create_parents: true })).entries, 1)
      assert.equal(await files.readText('/home/user/in/file'), 'content')
    },
  },
  {
    fact: 'a repository is looked at and committed to; one that no network reaches is not cloned',
    async run(_berth, ws) {
      await ws.exec(sh('git init -q repository && cd repository && echo x > file && git add file'), { check: true })
      assert.equal((await ws.git.status('/home/user/repository')).files.length, 1)
      const author = { name: 'T', email: 't@example.com' }
      assert.match((await ws.git.commit({ path: '/home/user/repository', message: 'first', author })).commit, /^[0-9a-f]{40}$/)
      await assert.rejects(ws.git.clone({ url: 'https://127.0.0.1:9/none.git', path: '/home/user/none' }), BerthError)
    },
  },
  {
    fact: 'a browser that the template does not have is refused',
    async run(_berth, ws) {
      await assert.rejects(ws.browser.screenshot({ url: 'http://127.0.0.1:1/' }), BerthError)
      await assert.rejects(ws.browser.content({ url: 'http://127.0.0.1:1/' }), BerthError)
    },
  },
  {
    fact: 'processes are listed and signalled, and changes told',
    async run(_berth, ws) {
      const command = await ws.start(['sleep', '600'])
      const { pid } = await command.status()
      assert.ok((await ws.processes.list()).processes.some((each) => each.pid === pid))
      await ws.processes.signal(pid ?? 0, 'SIGKILL')
      assert.equal((await command.result()).ok, false)
      await ws.files.write('/home/user/changed', 'x')
      assert.ok((await ws.changes.list({ path_prefix: '/home/user' }).all()).some(({ path }) => path === '/home/user/changed'))
      assert.ok(await ws.changes.summary())
    },
  },
  {
    fact: 'idleness is asked and put off',
    async run(_berth, ws) {
      assert.ok(await ws.idle.get())
      assert.ok((await ws.idle.keepalive(60)).keepalive_until)
      assert.ok((await ws.idle.wakeHint()).residency)
      assert.equal((await ws.setIdlePolicy('never')).id, ws.id)
      assert.ok((await ws.suspendWhenIdle(3600)).suspend_request)
      assert.equal((await ws.cancelSuspendWhenIdle()).id, ws.id)
    },
  },
  {
    fact: 'ports are exposed, let in, and closed',
    async run(_berth, { ports }) {
      await ports.expose(8000)
      assert.equal((await ports.get(8000)).port, 8000)
      assert.equal((await ports.list().all()).length, 1)
      assert.ok((await ports.token(8000)).token)
      assert.match((await ports.link(8000)).url, /^http/)
      assert.ok(await ports.callback(8000))
      await ports.revokeCallback(8000)
      await ports.close(8000)
    },
  },
  {
    fact: 'it is suspended, resumed, kept, restored, forked, adopted, reset and deleted, and its operations are told',
    async run(berth, ws) {
      const { id } = await ws.suspend()
      assert.equal((await berth.operation(id)).kind, 'suspend')
      assert.equal((await berth.waitForOperation(id)).state, 'succeeded')
      assert.equal((await ws.resume()).observed_state, 'running')
      const kept = await ws.snapshot({ label: 'kept' })
      assert.ok((await ws.checkpoints().all()).some(({ label }) => label === 'kept'))
      const checkpoint_id = String(kept.result?.['checkpoint_id'])
      await ws.restore(checkpoint_id)
      const fork = await ws.fork(unique('fork'))
      assert.notEqual(fork.id, ws.id)
      assert.equal((await ws.adopt(fork)).kind, 'adopt')
      await ws.adopt(fork.id, { delete_fork: true })
      assert.ok((await ws.operations().all()).length >= 3)
      await ws.deleteCheckpoint(checkpoint_id)
      await ws.reset()
    },
  },
  {
    fact: 'a session workspace is closed, and ends with its block',
    async run(berth) {
      const one = await berth.open(unique('session'), { template: 'base', lifetime: 'session' })
      await one.close()
      const other = await berth.open(unique('session'), { template: 'base', lifetime: 'session' })
      await other[Symbol.asyncDispose]()
    },
  },
  {
    fact: 'a file-first workspace has revisions, which are compared and restored',
    async run(berth) {
      const ws = await berth.open(unique('tree'), { template: 'base', mode: 'file_first' })
      await ws.files.write('/home/user/file', 'one')
      await ws.files.write('/home/user/file', 'two')
      assert.ok((await ws.tree.revisions().all()).length >= 2)
      assert.deepEqual((await ws.tree.diff({ from: 1, to: 2 }).all()).map(({ path }) => path), ['/home/user/file']) // prettier-ignore
      assert.equal((await ws.tree.restore(1)).tree_revision, 3)
      const { id } = await ws.exec(['cat', '/home/user/file'])
      assert.equal((await ws.execution(id)).state, 'succeeded')
      const [newest] = (await ws.executions({ state: 'ended', limit: 1 }).page()).data
      assert.deepEqual([newest?.execution_id, newest?.argv, newest?.exit_code], [id, ['cat', '/home/user/file'], 0])
      await (await ws.fork(unique('tree-fork'))).delete()
      await ws.delete()
    },
  },
  {
    fact: 'secrets are made, read, changed, rotated, bound and erased',
    async run(berth, ws) {
      const name = unique('SECRET').replaceAll('-', '_')
      const { id } = await berth.secrets.create({ name, value: 'hidden' })
      assert.ok((await berth.secrets.list().all()).some((each) => each.name === name))
      assert.equal((await berth.secrets.get(id)).name, name)
      await berth.secrets.update(id, { description: 'of a test' })
      await berth.secrets.rotate(id, 'another')
      assert.equal((await berth.secrets.versions(id).all()).length, 2)
      assert.deepEqual(
        (await ws.secrets.set([name])).secrets.map((each) => each.name),
        [name],
      )
      assert.equal((await ws.secrets.get()).secrets[0]?.status, 'available')
      await ws.secrets.set([])
      await berth.secrets.delete(id)
    },
  },
  {
    fact: 'egress is said for a project and for a workspace',
    async run(berth, ws) {
      const { version } = await berth.egress.set({ mode: 'allow_all' })
      assert.equal((await berth.egress.get()).version, version)
      assert.ok((await berth.egress.versions().all()).length > 0)
      await ws.egress.set({ mode: 'deny_all' })
      assert.ok(await ws.egress.get())
      assert.ok((await ws.egress.versions().all()).length > 0)
      assert.ok(await ws.egress.denials())
      await ws.egress.clear()
    },
  },
  {
    fact: 'volumes are made, attached, detached and deleted',
    async run(berth, ws) {
      const volume = await berth.volumes.create({ name: unique('volume'), quota_gib: 1 })
      assert.equal((await berth.volumes.get(volume.id)).id, volume.id)
      assert.ok((await berth.volumes.list().all()).some(({ id }) => id === volume.id))
      await ws.volumes.attach(volume, { mount_path: '/srv/volume' })
      assert.equal((await ws.volumes.list().all()).length, 1)
      await ws.volumes.detach(volume.id)
      await berth.volumes.delete(volume.id)
    },
  },
  ...TEMPLATE_STEPS,
  {
    fact: 'usage, inputs, organization, projects and records are told',
    async run(berth, ws, person) {
      assert.ok(await berth.usage.summary())
      assert.ok(await berth.usage.series({ granularity: 'day' }))
      assert.ok(await berth.usage.estimate({ cpu_millis: 1000 }))
      assert.ok(await person.usage.spend())
      assert.equal((await berth.usage.spendPolicy()).overage_enabled, false)
      assert.ok((await berth.usage.entitlements()).entitlements)
      assert.ok((await berth.usage.subscription()).plan)
      assert.ok(await berth.usage.grants().all())
      assert.ok(await berth.usage.plans().all())
      assert.ok(await ws.usage())
      assert.ok(await ws.inputs())
      assert.equal((await ws.agentSessions().all())[0]?.agent_label, 'default')
      const organization = await berth.organizations.get()
      assert.equal((await berth.organizations.list().all())[0]?.id, organization.id)
      assert.ok((await berth.organizations.projects().all()).length > 0)
      assert.ok((await berth.organizations.workspaces({ key_prefix: ws.key }).all()).some(({ id }) => id === ws.id))
      assert.ok((await berth.projects.get()).id)
      const made = await person.projects.create({ name: unique('project') })
      assert.equal((await person.projects.update({ name: 'Renamed' }, { project: made.id })).name, 'Renamed')
      assert.ok((await person.organizations.audit().page()).data.length > 0)
    },
  },
  {
    fact: 'people are invited, listed, changed and removed; keys made, changed and revoked',
    async run(berth, _ws, person) {
      const { api_key } = await berth.me()
      const project = api_key?.project_id ?? ''
      const email = `${unique('guest')}@example.com`
      const { id } = await person.members.invite({ email, role: 'member' })
      assert.ok((await person.members.invitations().all()).some((each) => each.email === email))
      await assert.rejects(person.members.resendInvitation(id), code('rate_limited'))
      await person.members.deleteInvitation(id)
      const [owner] = await person.members.list().all()
      // The last owner can be neither changed nor removed.
      await assert.rejects(person.members.update(owner?.person_id ?? '', { role: 'member' }), BerthError)
      await assert.rejects(person.members.remove(owner?.person_id ?? ''), BerthError)
      const key = await person.keys.create({ name: 'made', tool_permissions: ['exec'] }, { project })
      assert.match(key.api_key, /^sfk_/)
      assert.equal((await person.keys.list({ project }).all()).length, 2)
      assert.equal((await person.keys.get(key.id, { project })).name, 'made')
      await person.keys.update(key.id, { name: 'renamed' }, { project })
      await person.keys.revoke(key.id, { project })
      await assert.rejects(new Berth({ url: berth.url, apiKey: key.api_key }).me(), code('unauthenticated'))
    },
  },
]

/** A double cannot do the steps in `lacks`. Each of them must fail, so that the list stays current. */
export function methodsSuite(where: string, callers: () => Callers, lacks: readonly string[] = []): void {
  const seen: Seen = { called: new Set(), there: new Set() }
  for (const { fact, run } of STEPS)
    test(`${where}: ${fact}${lacks.includes(fact) ? ', which it does not know' : ''}`, { timeout: patience(400_000) }, async () => {
      const { berth, person } = callers()
      const called = recorded(berth, 'berth', seen)
      const ws = await called.open(unique('methods'), { template: 'base' })
      const done = run(called, ws, recorded(person ?? berth, 'berth', seen))
      if (lacks.includes(fact)) await assert.rejects(done)
      else await done
      await ws.delete()
    })
  if (lacks.length === 0)
    test(`${where}: no public method is left out`, () => {
      const { berth } = callers()
      const list = berth.workspaces()
      const [command, terminal] = [Command.prototype, Terminal.prototype]
      const there = [...methodsOf(berth, 'berth'), ...methodsOf(list, 'list'), ...methodsOf(command, 'command'), ...methodsOf(terminal, 'terminal')] // prettier-ignore
      assert.ok(seen.there.size > 50)
      assert.deepEqual([...there, ...seen.there].filter((name) => !seen.called.has(name)), []) // prettier-ignore
    })
}

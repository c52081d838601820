import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import type { TemplateSettings } from '../../contract/schemas/template-settings.ts'
import { until } from '../support/processes.ts'
import { seeder, SETTINGS } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

const STARTED: TemplateSettings = {
  ...SETTINGS,
  start: [
    { name: 'fetch', argv: ['/bin/fetch'] },
    { name: 'migrate', argv: ['/bin/migrate', '--all'], env: { STEP: 'two' }, timeout_seconds: 5 },
  ],
  services: [{ name: 'web', argv: ['/bin/web'], restart: 'on_failure', ready: { port: 8080 }, ready_timeout_seconds: 3 }],
}

let w: CellWorld
before(async () => {
  w = await worldWithCell({}, { file_first: true })
  await seeder(w.database, w.clock, w.ids).template(null, 'started', STARTED)
})
after(() => w[Symbol.asyncDispose]())
beforeEach(() => {
  w.startup.started.length = 0
  w.startup.canceled.length = 0
  w.startup.behave = fine
  w.startup.values = () => Promise.resolve({})
})

const fine: CellWorld['startup']['behave'] = (name) => (name === 'web' ? 'runs' : { exit: 0 })
const open = (key: string, wait = 20) => w.open(key, { template: 'started' }, { headers: { prefer: `wait=${wait}` } })
const names = () => w.startup.started.map(({ session_id }) => session_id.replace(/^sfstart\./, '').replace(/\.[^.]*$/, ''))
const read = async (id: string) => (await w.get(`/v1/workspaces/${id}`)).body

test("an open ends when commands, run in order with the workspace's environment, and services are ready", async () => {
  w.startup.values = () => Promise.resolve({ TOKEN: 'of a secret' })
  const { status, body } = await open('ready')
  assert.deepEqual(
    [status, body.workspace.startup, body.workspace.ready, body.operation.state],
    [200, { state: 'ready' }, true, 'succeeded'],
  )
  assert.deepEqual(names(), ['fetch', 'migrate', 'web', 'web.ready'])
  const [, migrate, web, ready] = w.startup.started
  assert.deepEqual(
    [migrate?.session_id, migrate?.argv, migrate?.timeout_ms, migrate?.user, migrate?.env],
    [`sfstart.migrate.${body.operation.id}`, ['/bin/migrate', '--all'], 5000, 'user', { LANG: 'C.UTF-8', COLOUR: 'blue', STEP: 'two', TOKEN: 'of a secret' }],
  ) // prettier-ignore
  assert.deepEqual(
    [web?.argv.slice(-3), web?.timeout_ms, ready?.argv.at(-1), ready?.timeout_ms],
    [['web', 'on_failure', '/bin/web'], undefined, '8080', 3000],
  )
  assert.equal((await open('ready')).status, 200)
  assert.equal(w.startup.started.length, 4)
})

test('a workspace in its start-up runs and serves tools, is not ready, and refuses other operations', async () => {
  let is_done = false
  w.startup.behave = (name) => (name === 'fetch' ? (is_done ? { exit: 0 } : 'runs') : fine(name, undefined as never))
  const { status, body } = await open('serving', 0)
  assert.equal(status, 202)
  const { id } = body.workspace
  await until('its first command runs', 10_000, async () => (await read(id)).startup.step === 'fetch')
  const seen = await read(id)
  assert.deepEqual(
    [seen.observed_state, seen.ready, seen.startup.state, seen.active_operation.id],
    ['running', false, 'running', body.operation.id],
  )
  assert.equal((await w.post(`/v1/workspaces/${id}/tool-tokens`)).status, 201)
  assert.equal((await w.table.fresh(id))?.hold?.gate, 'open')
  const refused = await w.post(`/v1/workspaces/${id}/suspend`)
  assert.deepEqual([refused.status, refused.body.error.details.reason], [409, 'operation_in_progress'])
  assert.equal((await open('serving', 0)).body.operation.id, body.operation.id)
  is_done = true
  assert.equal((await w.ended(body.operation.id)).state, 'succeeded')
  assert.deepEqual([(await read(id)).ready, (await w.table.fresh(id))?.hold], [true, null])
})

test('a failed command ends the open with startup_failed; the workspace runs on, and the next open begins with it', async () => {
  w.startup.behave = (name) => (name === 'migrate' ? { exit: 7, said: 'no such\0table' } : fine(name, undefined as never))
  const { status, body } = await open('failing')
  const failed = { step: 'migrate', reason: 'startup_failed', exit_code: 7, output_tail: 'no such\ufffdtable' }
  assert.deepEqual([status, body.tool_token, body.workspace.ready, body.workspace.observed_state], [202, null, false, 'running'])
  assert.deepEqual(body.workspace.startup, { state: 'failed', ...failed })
  assert.deepEqual(
    [body.operation.error.code, body.operation.error.retryable, body.operation.error.details],
    ['startup_failed', true, failed],
  )
  assert.deepEqual(names(), ['fetch', 'migrate'])
  assert.equal((await w.post(`/v1/workspaces/${body.workspace.id}/tool-tokens`)).status, 201)
  const waiting = { headers: { prefer: 'wait=5', 'idempotency-key': 'of-what-runs' } }
  for (const replayed of [null, 'true']) {
    const resumed = await w.post(`/v1/workspaces/${body.workspace.id}/resume`, { tools: ['exec'] }, waiting)
    assert.deepEqual(
      [
        resumed.status,
        resumed.body.operation,
        resumed.body.workspace.ready,
        resumed.body.tool_token?.tools,
        resumed.headers.get('idempotent-replayed'),
      ],
      [200, null, false, ['exec'], replayed],
    )
  }
  assert.deepEqual(names(), ['fetch', 'migrate'])
  w.startup.behave = fine
  const again = await open('failing')
  assert.deepEqual([again.status, again.body.operation.kind, again.body.operation.input], [200, 'open', { startup_retry: true }])
  assert.deepEqual(names(), ['fetch', 'migrate', 'migrate', 'web', 'web.ready'])
  assert.deepEqual([again.body.workspace.startup, again.body.workspace.ownership_epoch], [{ state: 'ready' }, 1])
})

for (const [what, course, exit_code] of [
  ['does not become ready in its time', { timed_out: true } as const, null],
  ['has a check that fails', { exit: 3 }, null],
] as const) {
  test(`a service that ${what} fails the start-up, and is ended before it is started again`, async () => {
    w.startup.behave = (name) => (name === 'web.ready' ? course : fine(name, undefined as never))
    const { body } = await open(`late ${what}`)
    const { reason, step } = body.operation.error.details
    assert.deepEqual([reason, step, body.operation.error.details.exit_code], ['service_not_ready', 'web', exit_code])
    assert.deepEqual(w.startup.canceled, [`sfstart.web.${body.operation.id}`])
    w.startup.behave = fine
    assert.equal((await open(`late ${what}`)).status, 200)
    assert.deepEqual(names(), ['fetch', 'migrate', 'web', 'web.ready', 'web', 'web.ready'])
  })
}

test('a service that exits for good before it is ready fails the start-up with its code', async () => {
  w.startup.behave = (name) => (name === 'web.ready' ? 'runs' : name === 'web' ? { exit: 4, said: 'port taken' } : { exit: 0 })
  const { error } = (await open('ended')).body.operation
  assert.deepEqual(error.details, { step: 'web', reason: 'startup_failed', exit_code: 4, output_tail: 'port taken' })
})

test('services survive suspend, resume and fork; a reset starts them again', async () => {
  const id = (await open('goes-on')).body.workspace.id
  w.startup.started.length = 0
  await w.ended((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  const resumed = await open('goes-on')
  assert.deepEqual([resumed.status, resumed.body.workspace.startup, names()], [200, { state: 'ready' }, []])
  const fork = (await w.post(`/v1/workspaces/${id}/fork`, { key: 'goes-on-fork' })).body
  assert.equal((await w.ended(fork.operation.id)).state, 'succeeded')
  assert.deepEqual([(await read(fork.workspace.id)).ready, names()], [true, []])
  const reset = await w.ended((await w.post(`/v1/workspaces/${id}/reset`, { confirm_destructive: true })).body.id)
  assert.deepEqual([reset.state, typeof reset.result.recovery_checkpoint_id], ['succeeded', 'string'])
  assert.deepEqual([(await read(id)).ready, names()], [true, ['fetch', 'migrate', 'web', 'web.ready']])
})

test("a resume runs the failed step again when the workspace's start-up had failed", async () => {
  w.startup.behave = (name) => (name === 'migrate' ? { exit: 1 } : fine(name, undefined as never))
  const id = (await open('asleep')).body.workspace.id
  await w.ended((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  w.startup.started.length = 0
  w.startup.behave = fine
  const { operation } = (await w.post(`/v1/workspaces/${id}/resume`)).body
  assert.deepEqual([(await w.ended(operation.id)).state, names()], ['succeeded', ['migrate', 'web', 'web.ready']])
  assert.equal((await read(id)).ready, true)
})

test('nothing starts without a secret that the version requires', async () => {
  const needy = { ...STARTED, inputs: { TOKEN: { kind: 'secret' as const, required: true } } }
  await seeder(w.database, w.clock, w.ids).template(null, 'needy', needy)
  const { id } = (await w.post(`/v1/projects/${w.a.project_id}/secrets`, { name: 'TOKEN', value: 'v' })).body
  const needyOpen = () => w.open('needy', { template: 'needy' }, { headers: { prefer: 'wait=20' } })
  const { error } = (await needyOpen()).body.operation
  assert.deepEqual([error.code, error.details.reason, error.details.step, names()], ['startup_failed', 'secret_not_available', 'fetch', []])
  w.startup.values = () => Promise.resolve({ TOKEN: 'v' })
  assert.equal((await needyOpen()).status, 200)
  await w.call('DELETE', `/v1/secrets/${id}`)
})

test('a deletion ends a start-up that would never end', async () => {
  w.startup.behave = () => 'runs'
  const { body } = await open('never', 0)
  const { id } = body.workspace
  await until('its first command runs', 10_000, async () => (await read(id)).startup.step === 'fetch')
  const deleted = (await w.call('DELETE', `/v1/workspaces/${id}`)).body
  assert.equal((await w.ended(deleted.id)).state, 'succeeded')
  assert.equal((await w.ended(body.operation.id)).state, 'canceled')
})

test('a machine that dies in its start-up ends the open, and the next open starts from the beginning', async () => {
  w.startup.behave = () => 'runs'
  const { body } = await open('dies', 0)
  const { id } = body.workspace
  await until('its first command runs', 10_000, async () => (await read(id)).startup.step === 'fetch')
  w.host.kill(id)
  const ended = await w.ended(body.operation.id)
  assert.deepEqual([ended.state, ended.error.code, ended.error.details.reason], ['failed', 'dependency_failed', 'died'])
  w.startup.behave = fine
  w.startup.started.length = 0
  const again = await open('dies')
  assert.deepEqual([again.status, names()], [200, ['fetch', 'migrate', 'web', 'web.ready']])
})

test('a file-first workspace and a version with nothing to start have no start-up', async () => {
  const tree = await w.open('tree', { template: 'started', mode: 'file_first' })
  assert.deepEqual([tree.status, tree.body.workspace.startup], [200, null])
  assert.equal((await w.get(`/v1/workspaces/${await w.ready('plain')}`)).body.startup, null)
})

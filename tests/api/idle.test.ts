import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
before(async () => {
  w = await worldWithCell({ capacity: { cpu_millis: 100_000, memory_mib: 100_000, disk_gib: 10_000 } })
})
after(() => w[Symbol.asyncDispose]())

const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`
const ask = async (id: string, after_seconds: number) => (await w.post(path(id, 'suspend-when-idle'), { after_seconds })).body
const idleOf = async (id: string) => (await w.get(`/v1/workspaces/${id}`)).body.idle
const kinds = async (id: string) => (await w.operations(id)).map(({ kind }) => kind)
const never = { idle_policy: 'never' }

test('a suspend request fires after its idle time, under the policy never too, as a system suspend with its reason', async () => {
  const id = await w.ready('fires', never)
  const { suspend_request } = await ask(id, 30)
  w.advance(20) // the clock also advances by itself
  await w.look()
  assert.deepEqual([await kinds(id), (await idleOf(id)).suspend_request], [['open'], suspend_request])
  w.advance(11)
  await w.look()
  const [suspend] = await w.operations(id)
  assert.deepEqual(
    [suspend.kind, suspend.input],
    ['suspend', { reason: 'requested_after_idle', requested_at: suspend_request.requested_at, after_seconds: 30 }],
  )
  assert.equal((await w.ended(suspend.id)).state, 'succeeded')
  const { body } = await w.get(`/v1/workspaces/${id}`)
  assert.deepEqual(
    [body.observed_state, body.desired_state, body.idle.suspend_request, body.idle.next_eligible_at],
    ['suspended', 'suspended', null, null],
  )
})

test('a tool call after the request cancels it, and one before does not', async () => {
  const [before, later] = [await w.ready('call-before', never), await w.ready('call-later', never)]
  w.table.touch(before, 'tool_call')
  w.advance(1)
  for (const id of [before, later]) await ask(id, 30)
  w.advance(1)
  w.table.touch(later, 'tool_call')
  w.advance(40)
  await w.look()
  assert.deepEqual([await kinds(before), await kinds(later)], [['suspend', 'open'], ['open']])
  assert.deepEqual([(await idleOf(later)).suspend_request, (await idleOf(later)).next_eligible_at], [null, null])
})

test('a port request, an ended keepalive and a wake hint do not cancel it', async () => {
  const id = await w.ready('visited', never)
  await ask(id, 30)
  w.advance(5)
  w.table.touch(id, 'other')
  w.advance(36)
  await w.look()
  assert.deepEqual(await kinds(id), ['suspend', 'open'])
})

test('a resume cancels it, even when the workspace already runs', async () => {
  const id = await w.ready('resumed', never)
  await ask(id, 30)
  assert.equal((await w.post(path(id, 'resume'), {})).body.error.details.reason, 'already_running')
  assert.notEqual((await idleOf(id)).suspend_request, null)
  assert.equal((await w.post(path(id, 'resume'), {}, { headers: { prefer: 'wait=5' } })).status, 200)
  assert.equal((await idleOf(id)).suspend_request, null)
  await ask(id, 30)
  await w.ended((await w.post(path(id, 'suspend'))).body.id)
  await w.ended((await w.post(path(id, 'resume'))).body.operation.id)
  assert.equal((await idleOf(id)).suspend_request, null)
  w.advance(60)
  await w.look()
  assert.deepEqual(await kinds(id), ['resume', 'suspend', 'open'])
})

test('a running command, an attached stream and a keepalive postpone the suspend until that long after their end', async () => {
  const id = await w.ready('busy', never)
  await ask(id, 30)
  const stream = w.table.holdAwake(id, 'stream')
  w.advance(100)
  await w.look()
  assert.deepEqual(await kinds(id), ['open'])
  stream[Symbol.dispose]()
  w.advance(20)
  const busy_until = new Date(w.clock.now().getTime() + 50_000)
  w.guests.busy_until = () => Promise.resolve(busy_until)
  w.advance(11)
  await w.look() // the suspend is due, but the guest reports a command for some 40 more seconds
  assert.deepEqual(await kinds(id), ['open'])
  assert.equal((await idleOf(id)).next_eligible_at, new Date(busy_until.getTime() + 30_000).toISOString())
  const keepalive_until = new Date(busy_until.getTime() + 100_000)
  await w.database.cell.updateTable('workspaces').set({ keepalive_until }).where('id', '=', id).execute()
  assert.equal((await idleOf(id)).next_eligible_at, new Date(keepalive_until.getTime() + 30_000).toISOString())
  w.advance((keepalive_until.getTime() - w.clock.now().getTime()) / 1000 + 20)
  await w.look()
  assert.deepEqual(await kinds(id), ['open'])
  w.advance(11)
  w.guests.busy_until = () => Promise.resolve(null)
  await w.look()
  assert.deepEqual(await kinds(id), ['suspend', 'open'])
})

test('a command counts as activity for an hour at most, whatever the guest reports', async () => {
  const id = await w.ready('liar', { idle_policy: 'fixed:60' })
  w.advance(61)
  const asked_ms = w.clock.now().getTime()
  w.guests.busy_until = () => Promise.resolve(new Date(asked_ms + 1e9))
  await w.look()
  w.guests.busy_until = () => Promise.resolve(null)
  const eligible_ms = Date.parse((await idleOf(id)).next_eligible_at)
  const [from_ms, to_ms] = [asked_ms, w.clock.now().getTime()].map((ms) => ms + (LIMITS.idle.command_busy_seconds_max + 60) * 1000)
  assert.ok(eligible_ms >= (from_ms ?? 0) && eligible_ms <= (to_ms ?? 0), String(eligible_ms))
})

for (const [what, act] of [
  ['a cancellation', (id: string) => w.call('DELETE', path(id, 'suspend-when-idle'))],
  ['a tool call', (id: string) => w.table.touch(id, 'tool_call')],
  ['a stream that attaches', (id: string) => w.table.holdAwake(id, 'stream')],
  ['a longer request', (id: string) => ask(id, 3600)],
] as const) {
  test(`${what} that comes while the guest is asked for its commands is honoured`, async () => {
    const id = await w.ready(`race ${what}`, never)
    await ask(id, 30)
    w.advance(31)
    w.guests.busy_until = async (asked) => {
      if (asked.agent_key !== w.table.get(id)?.machine?.agent_key) return null
      w.guests.busy_until = () => Promise.resolve(null)
      await act(id)
      return null
    }
    await w.look()
    assert.deepEqual(await kinds(id), ['open'])
  })
}

test('the idle policy fires when its time comes first, and is the stated reason; a request only shortens the time', async () => {
  const id = await w.ready('policy-first', { idle_policy: 'fixed:60' })
  await ask(id, 3600)
  w.advance(61)
  await w.look()
  const [suspend] = await w.operations(id)
  assert.deepEqual([suspend.kind, suspend.input], ['suspend', { reason: 'idle_timeout' }])
})

test('a request during a suspend records nothing and answers that suspend; DELETE is accepted in any state', async () => {
  const id = await w.ready('in-progress', never)
  const go = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  using _ = w.host.intercept('checkpoint', 'before', async () => {
    begun.resolve()
    await go.promise
  })
  await ask(id, 30)
  w.advance(31)
  await w.look()
  await begun.promise
  const { status, body } = await w.post(path(id, 'suspend-when-idle'), { after_seconds: 60 })
  assert.deepEqual(
    [status, body.operation.kind, body.operation.input.reason, body.suspend_request, body.workspace.idle.suspend_request],
    [202, 'suspend', 'requested_after_idle', null, null],
  )
  const cancel = await w.call('DELETE', path(id, 'suspend-when-idle'))
  assert.deepEqual([cancel.status, cancel.body.active_operation.id], [200, body.operation.id])
  go.resolve()
  assert.equal((await w.ended(body.operation.id)).state, 'succeeded')
  assert.equal((await w.call('DELETE', path(id, 'suspend-when-idle'))).status, 200)
})

test('an idle session ends with idle_timeout, and its key opens a new workspace', async () => {
  const id = await w.ready('session', { lifetime: 'session' })
  w.advance(LIMITS.idle.session_seconds - 10)
  await w.look()
  assert.deepEqual(await kinds(id), ['open'])
  w.advance(11)
  await w.look()
  const [end] = await w.operations(id)
  assert.deepEqual([end.kind, end.input], ['delete', { reason: 'idle_timeout' }])
  assert.match((await w.get(`/v1/workspaces/${id}`)).body.observed_state, /^(deleting|deleted)$/)
  await w.ended(end.id)
  const { body } = await w.get(`/v1/workspaces/${id}`)
  assert.deepEqual([body.observed_state, body.ended_reason], ['deleted', 'idle_timeout'])
  assert.notEqual(await w.ready('session', { lifetime: 'session' }), id)
})

test("a template's idle defaults apply until the workspace has its own, and again after these are cleared", async () => {
  const settings = {
    env: {},
    inputs: {},
    defaults: { cpu_millis: 1000, memory_mib: 512, disk_gib: 4, idle_policy: 'fixed:90', session_idle_seconds: 120 },
    ceiling: { cpu_millis: 1000, memory_mib: 512, disk_gib: 4 },
  }
  await seedTemplate('idle-defaults', settings)
  const id = await w.ready('own-policy', { template: 'idle-defaults' })
  const put = (idle_policy: string | null) => w.call('PUT', path(id, 'idle-policy'), { body: { idle_policy } })
  const shown = async (given: Promise<{ body: { idle: { policy: string; timeout_seconds: number; basis: string } } }>) => {
    const { policy, timeout_seconds, basis } = (await given).body.idle
    return [policy, timeout_seconds, basis]
  }
  assert.deepEqual(await shown(w.get(`/v1/workspaces/${id}`)), ['fixed:90', 90, 'fixed'])
  assert.deepEqual(await shown(put('adaptive')), ['adaptive', 300, 'default'])
  assert.deepEqual(await shown(put(null)), ['fixed:90', 90, 'fixed'])
  const session = await w.ready('own-session', { template: 'idle-defaults', lifetime: 'session' })
  assert.deepEqual(await shown(w.get(`/v1/workspaces/${session}`)), ['fixed:120', 120, 'session'])
})

async function seedTemplate(slug: string, settings: object): Promise<void> {
  const [template_id, created_at] = [w.ids.next(), w.clock.now()]
  const db = w.database.superuser
  await db.insertInto('templates').values({ id: template_id, organization_id: null, slug, created_at, archived_at: null }).execute()
  const version = { id: w.ids.next(), template_id, version: 1, layered: true, layers: ['0'.repeat(64)], settings: JSON.stringify(settings) }
  await db
    .insertInto('template_versions')
    .values({ ...version, created_at, published_at: created_at, archived_at: null })
    .execute()
}

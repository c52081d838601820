import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { OPERATION_KINDS, OPERATION_STATES } from '../../contract/states/operation.ts'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { until } from '../support/processes.ts'
import { seeder } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'
import { patience } from '../support/patience.ts'

const SIZE = { cpu_millis: 1000, memory_mib: 512, disk_gib: 4 }
const HOST = { cpu_millis: 1_000_000, memory_mib: 10 * SIZE.memory_mib, disk_gib: 10_000 } // capacity for ten

let w: CellWorld
before(async () => {
  w = await worldWithCell({ capacity: HOST })
})
after(() => w[Symbol.asyncDispose]())

const path = (id: string, verb: string) => `/v1/workspaces/${id}/${verb}`
const broken = () => {
  throw new HostFailure('internal', 'it broke', { retryable: false })
}

async function clear(ids: string[]): Promise<void> {
  const operations = await Promise.all(ids.map((id) => w.call('DELETE', `/v1/workspaces/${id}`)))
  for (const { body } of operations) await w.ended(body.id)
}

test('operations are listed newest first, by state and by kind, in pages, also for a deleted workspace', async () => {
  const id = await w.ready('listed', { caps: SIZE })
  const suspend = (await w.post(path(id, 'suspend'))).body
  await w.ended(suspend.id)
  {
    using _ = w.host.intercept('restore', 'before', broken)
    const { body } = await w.post(path(id, 'resume'))
    assert.deepEqual((await w.ended(body.operation.id)).error, {
      code: 'dependency_failed',
      message: 'The host could not start the machine',
      retryable: true,
      details: { reason: 'internal' },
    })
  }
  await w.ended((await w.post(path(id, 'resume'))).body.operation.id)
  await w.ended((await w.call('DELETE', `/v1/workspaces/${id}`)).body.id)
  const shown = async (query: string) => (await w.operations(id, query)).map(({ kind, state }) => `${kind} ${state}`)
  const all = ['delete succeeded', 'resume succeeded', 'resume failed', 'suspend succeeded', 'open succeeded']
  assert.deepEqual(await shown(''), all)
  for (const kind of OPERATION_KINDS)
    assert.deepEqual(
      await shown(`?kind=${kind}`),
      all.filter((text) => text.startsWith(`${kind} `)),
    )
  for (const state of OPERATION_STATES)
    assert.deepEqual(
      await shown(`?state=${state}`),
      all.filter((text) => text.endsWith(` ${state}`)),
    )
  assert.deepEqual(await shown('?kind=resume&state=failed'), ['resume failed'])
  const pages: string[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const { body } = await w.get(path(id, `operations?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`))
    pages.push(body.data.map(({ kind }: { kind: string }) => kind).join(' '))
    cursor = body.next_cursor
  }
  assert.deepEqual(pages, ['delete resume', 'resume suspend', 'open'])
  for (const query of ['kind=clone', 'state=done']) assert.equal((await w.get(path(id, `operations?${query}`))).status, 422)
  const { body } = await w.get(`/v1/operations/${suspend.id}`)
  assert.deepEqual([body.kind, body.state, typeof body.result.checkpoint_id, body.error], ['suspend', 'succeeded', 'string', null])
  assert.ok(body.created_at <= body.started_at && body.started_at <= body.completed_at)
})

test('an operation names its requester when read, in the list and as active_operation, as audit records do', async () => {
  const { body: opened } = await w.post('/v1/workspaces/open', { key: 'asked-for', template: 'base', caps: SIZE })
  const me = { kind: 'api_key', id: (await w.get('/v1/me')).body.api_key.id, name: null }
  assert.deepEqual([opened.operation.requested_by, opened.workspace.active_operation.requested_by], [me, me])
  assert.deepEqual((await w.ended(opened.operation.id)).requested_by, me)
  await w.ended((await w.post(path(opened.workspace.id, 'suspend'))).body.id)
  const { body: fork } = await w.post(path(opened.workspace.id, 'fork'), { key: 'asked-for-fork' })
  assert.deepEqual((await w.ended(fork.operation.id)).requested_by, me)
  await w.database.superuser.updateTable('operations').set({ requested_by: null }).where('id', '=', opened.operation.id).execute()
  assert.deepEqual(
    (await w.operations(opened.workspace.id)).map(({ kind, requested_by }) => [kind, requested_by]),
    [['suspend', me], ['open', null]], // prettier-ignore
  )
  await clear([opened.workspace.id, fork.workspace.id])
})

test('a suspend that cannot be saved fails and the workspace runs again; a damaged checkpoint is not retryable', async () => {
  const id = await w.ready('unsaved', { caps: SIZE })
  {
    using _ = w.host.intercept('checkpoint', 'before', broken)
    const { state, error } = await w.ended((await w.post(path(id, 'suspend'))).body.id)
    assert.deepEqual([state, error.code, error.retryable, error.details], ['failed', 'checkpoint_failed', true, { reason: 'internal' }])
  }
  assert.equal((await w.get(`/v1/workspaces/${id}`)).body.ready, true)
  const { result } = await w.ended((await w.post(path(id, 'suspend'))).body.id)
  w.host.corrupt(result.checkpoint_id)
  const { body } = await w.post(path(id, 'resume'))
  const { state, error } = await w.ended(body.operation.id)
  assert.deepEqual([state, error.code, error.retryable], ['failed', 'checkpoint_corrupt', false])
  const view = (await w.get(`/v1/workspaces/${id}`)).body
  assert.deepEqual([view.observed_state, view.desired_state], ['suspended', 'suspended'])
  await clear([id])
})

test('30 opens with capacity for 10: 20 wait visibly, each gets capacity in order, none is lost', async () => {
  const opens = await Promise.all(Array.from({ length: 30 }, (_, n) => w.open(`crowd-${n}`, { caps: SIZE })))
  const ids: string[] = opens.map(({ body }) => body.workspace.id)
  const states = async () => Promise.all(ids.map(async (id) => (await w.operations(id, '?kind=open'))[0]))
  const settled = async () => {
    for (const deadline_ms = performance.now() + patience(60_000); ;) {
      const all = await states()
      const counts = ['succeeded', 'capacity_pending'].map((state) => all.filter((operation) => operation.state === state).length)
      const room = Math.min(10, ids.length)
      if (counts[0] === room && counts[1] === ids.length - room) return all
      assert.ok(performance.now() < deadline_ms, `the opens do not settle: ${counts.join()} of ${ids.length}`)
    }
  }
  const seen = await settled()
  const waiting = seen.filter(({ state }) => state === 'capacity_pending')
  assert.deepEqual([seen.length - waiting.length, waiting.length], [10, 20])
  for (const { workspace_id, state_reason, created_at, error, started_at } of waiting) {
    const deadline_at = new Date(Date.parse(created_at) + LIMITS.wait.capacity_wait_seconds * 1000).toISOString()
    assert.deepEqual(
      [state_reason, error.details.deadline_at, error.details.required, started_at],
      ['no_ready_host', deadline_at, SIZE, null],
    )
    const view = (await w.get(`/v1/workspaces/${workspace_id}`)).body
    assert.deepEqual(
      [view.pending_reason, view.observed_state, view.active_operation.state],
      ['no_ready_host', 'creating', 'capacity_pending'],
    )
  }
  for (let round = 0; round < 3; round += 1) {
    const running = (await settled()).filter(({ state }) => state === 'succeeded').map(({ workspace_id }) => workspace_id)
    await clear(running)
    for (const id of running) ids.splice(ids.indexOf(id), 1)
  }
  assert.deepEqual(ids, [])
  const ends = await Promise.all(opens.map(({ body }) => w.get(`/v1/operations/${body.operation.id}`)))
  assert.deepEqual([...new Set(ends.map(({ body }) => body.state))], ['succeeded'])
})

test('an open, a resume and a fork without capacity for 15 minutes fail, and nothing starts', async () => {
  const [asleep, source] = [await w.ready('late-asleep', { caps: SIZE }), await w.ready('late-source', { caps: SIZE })]
  for (const id of [asleep, source]) await w.ended((await w.post(path(id, 'suspend'))).body.id)
  const full = await w.ready('late-full', { caps: { ...SIZE, memory_mib: HOST.memory_mib } })
  const operations = [
    (await w.open('late-open', { caps: SIZE })).body.operation,
    (await w.post(path(asleep, 'resume'))).body.operation,
    (await w.post(path(source, 'fork'), { key: 'late-fork' })).body.operation,
  ]
  for (const { id } of operations) {
    const waits = async () => (await w.get(`/v1/operations/${id}`)).body.state === 'capacity_pending'
    await until('it waits for room', 30_000, waits)
  }
  const last_ms = Math.max(...operations.map(({ created_at }) => Date.parse(created_at)))
  w.clock.ahead_ms += last_ms + LIMITS.wait.capacity_wait_seconds * 1000 - w.clock.now().getTime() + 1000
  // The next event wakes the cell, which finds the deadlines passed.
  const wake = await w.post(path(full, 'suspend'))
  const ended = await Promise.all(operations.map(({ id }) => w.ended(id)))
  for (const { state, error } of ended) {
    const { waited_seconds, ...details } = error.details
    assert.deepEqual(
      [state, error.code, error.retryable, details],
      ['failed', 'capacity_unavailable', true, { reason: 'no_ready_host', deadline_seconds: 900, required: SIZE }],
    )
    assert.ok(waited_seconds >= 900 && waited_seconds < 960, String(waited_seconds))
  }
  const views = await Promise.all(
    [asleep, source, ...ended.map(({ workspace_id }) => workspace_id)].map((id) => w.get(`/v1/workspaces/${id}`)),
  )
  assert.deepEqual(
    views.map(({ body }) => [body.observed_state, body.desired_state, body.pending_reason, body.active_operation]),
    [
      ['suspended', 'suspended', null, null],
      ['suspended', 'suspended', null, null],
      ['failed', 'running', null, null],
      ['suspended', 'suspended', null, null],
      ['failed', 'running', null, null], // the fork has its copy, and an open of its key starts it
    ],
  )
  await w.ended(wake.body.id)
  await clear([asleep, source, full, ended[2]?.workspace_id ?? ''])
})

test('a request that no host can ever hold fails at once and names what is too large', async () => {
  const ceiling = { cpu_millis: 2_000_000, memory_mib: 99_999, disk_gib: 10 }
  await seeder(w.database, w.clock, w.ids).template(null, 'giant', { env: {}, inputs: {}, defaults: SIZE, ceiling })
  const required = { cpu_millis: HOST.cpu_millis + 1, memory_mib: HOST.memory_mib + 1, disk_gib: 4 }
  const { body } = await w.open('giant', { caps: required, template: 'giant' }, { headers: { prefer: 'wait=20' } })
  assert.deepEqual(body.operation.error, {
    code: 'invalid_resources',
    message: 'The workspace needs more than any host has',
    retryable: false,
    details: { reason: 'exceeds_host_class', required, host_class: HOST, exceeded: ['cpu_millis', 'memory_mib'] },
  })
  assert.deepEqual([body.workspace.observed_state, body.tool_token], ['failed', null])
})

test('40 concurrent opens and resumes of a suspended key through two processes join one start, and each gets its token', async () => {
  const id = await w.ready('wake', { caps: SIZE })
  await w.ended((await w.post(path(id, 'suspend'))).body.id)
  const second = await w.second()
  const wakes = await Promise.all(
    Array.from({ length: 40 }, (_, n) => {
      const given = { headers: { prefer: 'wait=20' }, base: n % 2 ? second : w.base }
      return n % 4 < 2 ? w.open('wake', {}, given) : w.post(path(id, 'resume'), {}, given)
    }),
  )
  assert.deepEqual([...new Set(wakes.map(({ status }) => status))], [200])
  const joined = new Set(wakes.map(({ body }) => body.operation?.id).filter((found) => found !== undefined))
  assert.equal(joined.size, 1)
  const epochs = new Set(wakes.map(({ body }) => body.tool_token.ownership_epoch))
  assert.deepEqual([...epochs], [3])
  assert.deepEqual(
    (await w.operations(id)).map(({ kind }) => kind),
    ['resume', 'suspend', 'open'],
  )
})

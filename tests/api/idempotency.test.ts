import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CompiledQuery, sql } from 'kysely'
import { workspacesOpen } from '../../contract/routes/app/workspaces.ts'
import { workspacesSuspend } from '../../contract/routes/app/lifecycle.ts'
import { forgetOutcomes, keepRefusal } from '../../service/api/calls/idempotency/store.ts'
import { fail } from '../../service/lib/fail.ts'
import { until } from '../support/processes.ts'
import { keyKept, seeder, SETTINGS, world, type Answer, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const keyed = (key: string, as = w.a.key) => ({ as, headers: { 'idempotency-key': key } })
const code = (answer: Answer) => [answer.status, answer.body.error.code]
const entries = async (key: string) =>
  (await w.database.superuser.selectFrom('idempotency_entries').select(['principal', 'route']).where('key', '=', key).execute()).length

test('a repeat during its request is a retryable 409 without a reason, in another process too', async () => {
  const name = JSON.stringify([`api_key:${w.a.key_row_id}`, workspacesOpen.id, 'slow'])
  const base = await w.second()
  await w.database.superuser.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 1))`.execute(tx) // the lock that a request in progress holds
    for (const given of [keyed('slow'), { ...keyed('slow'), base }]) {
      const { status, body, headers } = await w.open('slow', {}, given)
      const { message: _message, request_id: _request_id, ...error } = body.error
      assert.deepEqual([status, error, headers.get('retry-after')], [409, { code: 'conflict', retryable: true }, '1'])
    }
    assert.equal((await w.open('slow-other', {}, keyed('other'))).status, 202) // a request with another key does not wait for the lock
  })
  assert.equal((await w.open('slow', {}, keyed('slow'))).status, 202) // the 409 was not stored
})

test('of two calls with one key, one of them refused, every final answer equals the stored answer of the key', async () => {
  const id = await w.running('raced')
  const path = `/v1/workspaces/${id}/resume`
  const db = w.database.superuser
  const waiting = async () => {
    const { rows } = await sql`select 1 from pg_locks where relation = 'idempotency_entries'::regclass and not granted`.execute(db)
    return rows.length
  }
  const keep = db.transaction().execute(async (tx) => {
    await sql`lock table idempotency_entries in exclusive mode`.execute(tx) // entries can be read, and not written
    const refused = w.post(path, {}, keyed('raced'))
    await until('the refusal is about to be kept', 10_000, async () => (await waiting()) === 1)
    const suspended = { observed_state: 'suspended', desired_state: 'suspended' } as const
    await db.updateTable('workspaces').set(suspended).where('id', '=', id).execute()
    const double = w.post(path, {}, keyed('raced'))
    let double_is_answered = false
    void double.then(() => (double_is_answered = true))
    await until('its double is answered or waits too', 10_000, async () => double_is_answered || (await waiting()) === 2)
    return [refused, double]
  })
  const answers = await Promise.all(await keep)
  const kept = await w.post(path, {}, keyed('raced'))
  const told = ({ status, body }: Answer) => [status, body.operation?.id ?? body.error.details.reason]
  for (const answer of answers.filter(({ body }) => body.error?.retryable !== true)) assert.deepEqual(told(answer), told(kept))
  assert.deepEqual(told(kept), [409, 'already_running'])
})

test('a refusal that is stored after a change with the same key yields to the change', async () => {
  const id = await w.running('late')
  const changed = await w.post(`/v1/workspaces/${id}/suspend`, undefined, keyed('late'))
  const entry = w.database.superuser.selectFrom('idempotency_entries').select('fingerprint').where('key', '=', 'late')
  const { fingerprint } = await entry.executeTakeFirstOrThrow()
  const call = {
    route: workspacesSuspend,
    who: { type: 'api_key', id: w.a.key_row_id },
    now: w.clock.now(),
    idempotency: { key: 'late', fingerprint, matches: (kept: Buffer) => kept.equals(fingerprint) },
  } as unknown as Parameters<typeof keepRefusal>[1]
  const outcome = await keepRefusal(w.database.api, call, fail('conflict', 'not_running', 'The workspace is not running'))
  assert.deepEqual([outcome?.status, outcome?.operation_id], [202, changed.body.id])
})

test('the entry commits with its change: a failed change leaves neither, and the same key can be used later', async () => {
  const asOwner = (text: string) => w.database.superuser.executeQuery(CompiledQuery.raw(text))
  await asOwner('revoke insert on operations from berth_api')
  const failed = await w.open('broken', {}, keyed('broken'))
  await asOwner('grant insert on operations to berth_api')
  assert.deepEqual([failed.status, failed.body.error.code, failed.body.error.retryable], [500, 'internal_error', true])
  assert.deepEqual([await entries('broken'), (await w.get('/v1/workspaces?key_prefix=broken')).body.data], [0, []])
  const done = await w.open('broken', {}, keyed('broken'))
  assert.deepEqual([done.status, await entries('broken')], [202, 1])
})

test('an answer is stored for 24 hours to the second, for its principal and route alone', async () => {
  const first = await w.open('day', {}, keyed('day'))
  const operation_id = first.body.operation.id
  await w.cell.succeed(operation_id)
  const id = first.body.workspace.id
  await w.cell.succeed((await w.call('DELETE', `/v1/workspaces/${id}`)).body.id)
  const repeat = async (ahead_ms: number) => {
    w.clock.ahead_ms = ahead_ms
    try {
      return await w.open('day', {}, keyed('day'))
    } finally {
      w.clock.ahead_ms = 0
    }
  }
  const kept = await repeat((24 * 3600 - 5) * 1000)
  assert.deepEqual([kept.status, kept.body.operation.id, kept.body.workspace.observed_state], [202, operation_id, 'deleted'])
  const over = await repeat((24 * 3600 + 1) * 1000)
  assert.deepEqual([over.status, over.body.error.details.reason], [409, 'workspace_deleted'])
  const { key } = await seeder(w.database, w.clock, w.ids).key(w.a.organization_id, w.a.project_id)
  const other = await w.open('day', {}, keyed('day', key)) // another key of the same project is another principal
  assert.deepEqual([other.status, other.body.error.details.reason], [409, 'workspace_deleted'])
})

test('the path is part of the request: the same body elsewhere is a mismatch, which is not stored itself', async () => {
  const id = await w.running('mismatch')
  const fork = (path: string, key: string) => w.post(path, { key }, keyed('fork'))
  const first = await fork(`/v1/workspaces/${id}/fork`, 'mismatch-1')
  for (const [path, key] of [
    [`/v1/workspaces/${w.ids.next()}/fork`, 'mismatch-1'],
    [`/v1/workspaces/${id}/fork`, 'mismatch-2'],
  ] as const) {
    const { status, body } = await fork(path, key)
    assert.deepEqual([status, body.error.code, body.error.retryable], [422, 'idempotency_mismatch', false], path)
  }
  const again = await fork(`/v1/workspaces/${id}/fork`, 'mismatch-1')
  assert.deepEqual([again.status, again.body], [202, first.body])
})

test('a refusal of an invalid request is not stored: the corrected request may use the key', async () => {
  const key = keyed('corrected')
  assert.equal((await w.open('corrected', { caps: { cpu_millis: 0 } }, key)).status, 422)
  assert.equal((await w.call('POST', '/v1/workspaces/open', { ...key, body: '{' })).status, 400)
  assert.equal((await w.open('corrected', {}, { ...key, as: 'sfk_nobody_nothing' })).status, 401)
  assert.equal(await entries('corrected'), 0)
  assert.equal((await w.open('corrected', {}, key)).status, 202)
})

test('an open or resume that answered 200 after its wait repeats as 200 while the workspace is ready, else as 202', async () => {
  const held = { ...keyed('waited'), headers: { ...keyed('waited').headers, prefer: 'wait=20' } }
  const opening = w.open('waited', {}, held)
  await keyKept(w, 'waited')
  const [{ id }] = (await w.get('/v1/workspaces?key_prefix=waited')).body.data
  await w.cell.succeed((await w.get(`/v1/workspaces/${id}`)).body.active_operation.id)
  const opened = await opening
  const repeat = await w.open('waited', {}, keyed('waited'))
  const { tool_token: first_token, ...first } = opened.body
  const { tool_token, ...again } = repeat.body
  assert.deepEqual([opened.status, repeat.status, again], [200, 200, first])
  assert.deepEqual([repeat.headers.get('preference-applied'), tool_token.ownership_epoch], [null, first_token.ownership_epoch])
  assert.notEqual(tool_token.token, first_token.token)

  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/suspend`)).body.id)
  const suspended = await w.open('waited', {}, keyed('waited'))
  assert.deepEqual([suspended.status, suspended.body.operation, suspended.body.tool_token], [202, first.operation, null])

  const path = `/v1/workspaces/${id}/resume`
  const { operation } = (await w.post(path, {}, keyed('waited-2'))).body
  assert.equal((await w.post(path, {}, keyed('waited-2'))).status, 202)
  await w.cell.succeed(operation.id)
  assert.equal((await w.post(path, {}, keyed('waited-2'))).status, 202) // no caller has been answered 200 yet
  const waited = await w.post(path, {}, { headers: { ...keyed('waited-2').headers, prefer: 'wait=5' } })
  const after = await w.post(path, {}, keyed('waited-2'))
  assert.deepEqual([waited.status, after.status, after.body.operation], [200, 200, waited.body.operation])
  assert.deepEqual(after.body.tool_token.ownership_epoch, after.body.workspace.ownership_epoch)
})

const CHECKPOINT = '01920000-0000-7000-8000-00000000c0de'
/** Requests whose stored answer contains no token. `later` changes something before the repeat. */
const KEPT: Record<string, { body?: object; lifetime?: 'session'; later?: (operation_id: string) => Promise<void> }> = {
  'POST suspend': {},
  'POST snapshot': { body: { label: 'kept' } },
  'POST restore': { body: { checkpoint_id: CHECKPOINT } },
  'POST reset': { body: { confirm_destructive: true } },
  'POST fork': { body: { key: 'kept-fork' } },
  'POST suspend-when-idle': { body: { after_seconds: 30 } },
  'POST close': { lifetime: 'session', later: (id) => w.cell.succeed(id) },
  'DELETE ': { later: (id) => w.cell.succeed(id) },
}

for (const [asked, { body, lifetime, later }] of Object.entries(KEPT)) {
  test(`${asked.trim()}: a repeat is answered with the bytes of the first answer, whatever has become of it`, async () => {
    const [method = '', verb = ''] = asked.split(' ')
    const key = `kept-${verb || 'delete'}-source`
    const id = await w.running(key, lifetime ? { lifetime } : {})
    if (verb === 'restore') await seeder(w.database, w.clock, w.ids).checkpoint(id, { id: CHECKPOINT })
    const path = `/v1/workspaces/${id}${verb && `/${verb}`}`
    const ask = async () => {
      const headers = { authorization: `Bearer ${w.a.key}`, 'idempotency-key': key, 'content-type': 'application/json' }
      const response = await fetch(`${w.base}${path}`, { method, headers, body: JSON.stringify(body ?? {}) })
      const type = response.headers.get('content-type')
      return { status: response.status, type, text: await response.text(), request_id: response.headers.get('x-request-id') }
    }
    const { request_id, ...first } = await ask()
    assert.deepEqual([first.status, first.type], [202, 'application/json; charset=utf-8'])
    const answer = JSON.parse(first.text)
    // The entry commits with the change, so a process that dies before its answer has stored it.
    const entry = w.database.superuser.selectFrom('idempotency_entries').select('outcome').where('key', '=', key)
    assert.equal((await entry.executeTakeFirstOrThrow()).outcome['body'], first.text)
    await (later ? later(answer.id) : w.call('DELETE', `/v1/workspaces/${id}`))
    const { request_id: other_request_id, ...repeat } = await ask()
    assert.deepEqual(repeat, first)
    assert.notEqual(other_request_id, request_id)
  })
}

test('every repeated answer is marked as a repeat: of a change, of a refusal and of a start', async () => {
  const id = await w.running('marked')
  const asked = {
    change: () => w.post(`/v1/workspaces/${id}/fork`, { key: 'marked-fork' }, keyed('marked-1')),
    refusal: () => w.post(`/v1/workspaces/${id}/fork`, { key: 'sf:marked' }, keyed('marked-2')),
    start: () => w.open('marked-new', {}, keyed('marked-3')),
  }
  for (const [what, ask] of Object.entries(asked)) {
    const [first, second] = [await ask(), await ask()]
    assert.equal(first.status, second.status, what)
    const marks = [first, second].map(({ headers }) => headers.get('idempotent-replayed'))
    assert.deepEqual(marks, [null, 'true'], what)
  }
  const mismatch = await w.post(`/v1/workspaces/${id}/fork`, { key: 'marked-other' }, keyed('marked-1'))
  assert.deepEqual([mismatch.status, mismatch.headers.get('idempotent-replayed')], [422, null])
})

test('a refusal by the plan is not stored: once the plan allows the call, the same key succeeds', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const plan_id = await seeds.plan('tight', { refuses_starts: 'unpaid' })
  const { key } = await seeds.tenant('tight', plan_id)
  const ask = () => w.open('tight', {}, keyed('tight', key))
  const allow = (change: object) => w.database.superuser.updateTable('plans').set(change).where('id', '=', plan_id).execute()
  assert.deepEqual([(await ask()).status, await entries('tight')], [402, 0])
  await allow({ refuses_starts: null, concurrent_workspaces: 0 })
  const full = await ask()
  assert.deepEqual([full.status, full.body.error.code, await entries('tight')], [403, 'quota_exceeded', 0])
  await allow({ concurrent_workspaces: 1 })
  assert.deepEqual([(await ask()).status, await entries('tight')], [202, 1])
})

test('a repeat of a 200 without an operation names the operation that has since taken the workspace away', async () => {
  const id = await w.running('at-once')
  const asked = { headers: { 'idempotency-key': 'at-once', prefer: 'wait=5' } }
  const ask = {
    open: () => w.open('at-once', {}, asked),
    resume: () => w.post(`/v1/workspaces/${id}/resume`, {}, asked),
  }
  for (const call of Object.values(ask)) {
    const { status, body } = await call()
    assert.deepEqual([status, body.operation, body.tool_token.workspace_id], [200, null, id])
  }
  const { body: suspend } = await w.post(`/v1/workspaces/${id}/suspend`)
  const while_it_suspends = await ask.resume()
  assert.deepEqual([while_it_suspends.status, while_it_suspends.body.operation], [202, suspend])
  await w.cell.succeed(suspend.id)
  const [opened, resumed] = [await ask.open(), await ask.resume()]
  assert.deepEqual([opened.status, opened.body.operation.id, opened.body.tool_token], [202, suspend.id, null])
  assert.deepEqual(
    [resumed.status, Object.keys(resumed.body).sort(), resumed.body.operation.id],
    [202, ['operation', 'workspace'], suspend.id],
  )
  assert.equal(resumed.body.workspace.observed_state, 'suspended')
  await w.cell.succeed((await w.post(`/v1/workspaces/${id}/resume`)).body.operation.id)
  for (const call of Object.values(ask)) {
    const { status, body } = await call()
    assert.deepEqual([status, body.operation, body.tool_token.ownership_epoch], [200, null, body.workspace.ownership_epoch])
  }
})

test('a refusal that names an input with NUL in it is stored', async () => {
  for (const inputs of [{ 'A\0': '' }, { '\ud800': '' }]) {
    const key = keyed(`odd-${JSON.stringify(inputs).length}`)
    const first = await w.open('odd', { inputs }, key)
    const repeat = await w.open('odd', { inputs }, key)
    assert.deepEqual([first.status, first.body.error.details], [422, repeat.body.error.details])
    assert.equal(await entries(key.headers['idempotency-key']), 1)
  }
})

test('a repeat with the same idempotency key has one effect and answers afresh', async () => {
  const headers = { 'idempotency-key': 'once' }
  const first = await w.open('once', {}, { headers })
  const repeat = await w.open('once', {}, { headers })
  assert.deepEqual([repeat.status, repeat.body], [first.status, first.body])
  await w.cell.succeed(first.body.operation.id)
  const later = await w.open('once', {}, { headers: { ...headers, prefer: 'wait=5' } })
  assert.deepEqual([later.status, later.body.operation.id], [200, first.body.operation.id])
  const again = await w.open('once', {}, { headers: { ...headers, prefer: 'wait=5' } })
  assert.notEqual(again.body.tool_token.token, later.body.tool_token.token)
  const { outcome } = await w.database.superuser
    .selectFrom('idempotency_entries')
    .select('outcome')
    .where('key', '=', 'once')
    .executeTakeFirstOrThrow()
  assert.doesNotMatch(JSON.stringify(outcome), /eyJ/)
})

test('a key with another request is a mismatch; with another principal or route it is another key', async () => {
  const headers = { 'idempotency-key': 'mine' }
  const first = await w.open('mine', { inputs: { CITY: 'a', COLOUR: 'b' } }, { headers })
  assert.equal((await w.open('mine', { inputs: { COLOUR: 'b', CITY: 'a' } }, { headers })).body.operation.id, first.body.operation.id)
  assert.deepEqual(code(await w.open('mine', { inputs: { CITY: 'c' } }, { headers })), [422, 'idempotency_mismatch'])
  assert.equal((await w.open('mine', {}, { headers, as: w.b.key })).status, 202)
  await w.cell.succeed(first.body.operation.id)
  const id = first.body.workspace.id
  const suspend = await w.post(`/v1/workspaces/${id}/suspend`, undefined, { headers })
  assert.equal(suspend.status, 202)
  await w.cell.succeed(suspend.body.id)
  assert.equal((await w.post(`/v1/workspaces/${id}/suspend`, undefined, { headers })).body.id, suspend.body.id)
})

test('a final refusal is stored, one that may change is not, and both are forgotten after a day', async () => {
  const headers = { 'idempotency-key': 'refused' }
  assert.deepEqual(code(await w.open('refused', { template: 'later' }, { headers })), [404, 'not_found'])
  await seeder(w.database, w.clock, w.ids).template(w.a.organization_id, 'later', SETTINGS)
  assert.deepEqual(code(await w.open('refused', { template: 'later' }, { headers })), [404, 'not_found'])
  const id = await w.running('busy')
  const suspend = await w.post(`/v1/workspaces/${id}/suspend`)
  const retry = { 'idempotency-key': 'retry' }
  assert.equal((await w.post(`/v1/workspaces/${id}/resume`, {}, { headers: retry })).status, 409)
  await w.cell.succeed(suspend.body.id)
  assert.equal((await w.post(`/v1/workspaces/${id}/resume`, {}, { headers: retry })).status, 202)
  try {
    w.clock.ahead_ms = 24 * 3600 * 1000 + 1000
    assert.equal((await w.open('refused', { template: 'later' }, { headers })).status, 202)
  } finally {
    w.clock.ahead_ms = 0
  }
})

test('the entries of a hundred thousand keys are deleted after a day, and younger ones stay', async () => {
  const now = w.clock.now()
  const at = (seconds_ago: number) => new Date(now.getTime() - seconds_ago * 1000)
  const fill = async (count: number, created_at: Date, route: string) => {
    const row = { principal: 'api_key:flood', route, fingerprint: Buffer.alloc(32), outcome: '{}', created_at }
    for (let n = 0; n < count; n += 5000)
      await w.database.superuser
        .insertInto('idempotency_entries')
        .values(Array.from({ length: Math.min(5000, count - n) }, (_, k) => ({ ...row, key: String(n + k) })))
        .execute()
  }
  await fill(100_000, at(24 * 3600 + 1), 'old')
  await fill(10, at(24 * 3600 - 60), 'young')
  assert.equal(await forgetOutcomes(w.database.api, now), 100_000)
  const { left } = await w.database.superuser
    .selectFrom('idempotency_entries')
    .select((e) => e.fn.countAll<number>().as('left'))
    .where('principal', '=', 'api_key:flood')
    .executeTakeFirstOrThrow()
  assert.equal(left, 10)
})

test('30 concurrent calls with one idempotency key have one effect; a repeat that comes too early is told to try again', async () => {
  const id = await w.running('race')
  const calls = await Promise.all(
    Array.from({ length: 30 }, () => w.post(`/v1/workspaces/${id}/fork`, { key: 'race-fork' }, { headers: { 'idempotency-key': 'race' } })),
  )
  const done = calls.filter(({ status }) => status === 202)
  assert.equal(new Set(done.map(({ body }) => body.operation.id)).size, 1)
  for (const { status, body } of calls.filter((answer) => answer.status !== 202)) {
    assert.deepEqual([status, body.error.code, body.error.retryable, body.error.details], [409, 'conflict', true, undefined])
  }
})

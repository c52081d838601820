import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CompiledQuery } from 'kysely'
import { linkEvents } from '../../service/core/changes/chain-store.ts'
import { armFailpoint, type FailpointName } from '../../service/lib/failpoints.ts'
import { AUDIT_DAYS, deleteExpired } from '../../service/api/forget.ts'
import { seeder, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

const db = () => w.database.superuser
const events = (subject_id: string) =>
  db().selectFrom('audit_events').selectAll().where('subject_id', '=', subject_id).orderBy('id').execute()
const actions = async (subject_id: string) => (await events(subject_id)).map(({ action }) => action)

test('a record names actor, action, owner, request and address, and no secret', async () => {
  const id = await w.running('told', { inputs: { CITY: 'secret-city' } })
  const headers = { 'x-request-id': 'request-of-told' }
  assert.equal((await w.call('PUT', `/v1/workspaces/${id}/idle-policy`, { body: { idle_policy: 'never' }, headers })).status, 200)
  const [opened, changed, ...others] = await events(id)
  assert.ok(opened && changed)
  assert.deepEqual(others, [])
  const { id: _id, created_at, sequence, sha256, ...rest } = changed
  assert.deepEqual([sequence, sha256], [null, null])
  assert.ok(Math.abs(created_at.getTime() - w.clock.now().getTime()) < 60_000)
  assert.deepEqual(rest, {
    organization_id: w.a.organization_id,
    project_id: w.a.project_id,
    actor_kind: 'api_key',
    actor_id: w.a.key_row_id,
    actor_name: null,
    action: 'workspaces.idle_policy',
    subject_kind: 'workspace',
    subject_id: id,
    request_id: 'request-of-told',
    source_address: '127.0.0.1',
    details: { idle_policy: 'never' },
  })
  assert.equal(opened.action, 'workspaces.open')
  assert.ok(!JSON.stringify([opened, changed]).includes('secret-city'))
})

test('a person is recorded as the actor', async () => {
  const { id: person_id, token } = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'member')
  const id = await w.running('of-person')
  assert.equal((await w.post(`/v1/workspaces/${id}/suspend`, undefined, { as: token })).status, 202)
  const last = (await events(id)).at(-1)
  assert.deepEqual([last?.action, last?.actor_kind, last?.actor_id], ['workspaces.suspend', 'user', person_id])
})

test('a request that changes nothing leaves no record, nor does a repeat', async () => {
  const id = await w.running('quiet')
  const path = `/v1/workspaces/${id}`
  const headers = { 'idempotency-key': 'quiet' }
  for (let n = 0; n < 3; n++) assert.equal((await w.post(`${path}/suspend`, undefined, { headers })).status, 202)
  assert.equal((await w.post(`${path}/suspend`)).status, 409) // another suspend is in progress
  assert.equal((await w.call('DELETE', `${path}/suspend-when-idle`)).status, 200) // no request exists to be cancelled
  assert.deepEqual(await actions(id), ['workspaces.open', 'workspaces.suspend'])
})

test('a token from a reopen is recorded as a token; a token from a change is recorded by the change alone', async () => {
  const id = await w.running('handed')
  assert.equal((await w.open('handed')).status, 200)
  assert.equal((await w.open('handed', { inputs: { CITY: 'Rome' } })).status, 200)
  assert.deepEqual(await actions(id), ['workspaces.open', 'tool-tokens.create', 'workspaces.open'])
  const token = (await events(id)).find(({ action }) => action === 'tool-tokens.create')
  assert.deepEqual(token?.details, { tools: ['exec', 'files'], agent_label: 'default' })
})

for (const point of ['change.C1', 'change.C2'] satisfies FailpointName[]) {
  test(`a change that ends at ${point} has left neither its work nor its record`, async () => {
    const id = await w.running(`stopped-${point}`)
    const row = () => db().selectFrom('workspaces').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    const [before, recorded] = [await row(), await actions(id)]
    let hits = 0
    {
      using _ = armFailpoint(point, () => {
        hits += 1
        throw new Error('the process ends here')
      })
      assert.equal((await w.post(`/v1/workspaces/${id}/suspend`)).status, 500)
    }
    assert.equal(hits, 1)
    assert.deepEqual([await row(), await actions(id)], [before, recorded])
    const holds = await db().selectFrom('workspace_holds').selectAll().where('workspace_id', '=', id).execute()
    assert.deepEqual(holds, [])
    assert.equal((await w.post(`/v1/workspaces/${id}/suspend`)).status, 202)
    assert.deepEqual(await actions(id), [...recorded, 'workspaces.suspend'])
  })
}

test('a record that cannot be written rolls its change back', async () => {
  const id = await w.running('unwritten')
  const before = await actions(id)
  await db().executeQuery(CompiledQuery.raw('revoke insert on audit_events from berth_api'))
  const refused = await w.call('PUT', `/v1/workspaces/${id}/idle-policy`, { body: { idle_policy: 'never' } })
  await db().executeQuery(CompiledQuery.raw('grant insert on audit_events to berth_api'))
  assert.equal(refused.status, 500)
  const { idle_policy } = await db().selectFrom('workspaces').select('idle_policy').where('id', '=', id).executeTakeFirstOrThrow()
  assert.deepEqual([idle_policy, await actions(id)], [null, before])
})

test('neither process can change a record, and the cell cannot read one', async () => {
  const id = await w.running('kept')
  const change = { actor_id: null }
  for (const role of [w.database.api, w.database.cell]) {
    await assert.rejects(role.updateTable('audit_events').set(change).where('subject_id', '=', id).execute(), { code: '42501' })
  }
  await assert.rejects(w.database.cell.selectFrom('audit_events').select('id').execute(), { code: '42501' })
})

test('records expire after their retention, and younger records stay', async () => {
  const id = await w.running('aged')
  const day_ms = 24 * 3600 * 1000
  const [event] = await events(id)
  assert.ok(event)
  const at = (days: number) => new Date(event.created_at.getTime() + days * day_ms)
  await linkEvents(w.database.api)
  await deleteExpired(w.database.api, at(AUDIT_DAYS - 1))
  assert.equal((await events(id)).length, 1)
  await deleteExpired(w.database.api, at(AUDIT_DAYS + 1))
  assert.equal((await events(id)).length, 0)
})

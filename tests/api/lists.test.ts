import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { seeder, world, type World } from './support.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

test('pages are newest first, stay complete under inserts, and a cursor is valid for one caller and one filter', async () => {
  const headers = { as: w.a2.key }
  const ids: string[] = []
  for (let n = 0; n < 5; n++) ids.unshift((await w.open(`page-${n}`, {}, headers)).body.workspace.id)
  const first = await w.get('/v1/workspaces?limit=2', headers)
  await w.open('page-new', {}, headers)
  const cursor = first.body.next_cursor as string
  assert.ok(cursor.length <= 200)
  const second = await w.get(`/v1/workspaces?limit=3&cursor=${cursor}`, headers)
  assert.deepEqual(
    [...first.body.data, ...second.body.data].map((row: { id: string }) => row.id),
    ids,
  )
  assert.equal(second.body.next_cursor, null)
  const flipped = `${cursor.startsWith('A') ? 'B' : 'A'}${cursor.slice(1)}`
  for (const bad of [flipped, 'x'.repeat(201), "'%20OR%201=1--", '', `${cursor}A`]) {
    const answer = await w.get(`/v1/workspaces?limit=2&cursor=${bad}`, headers)
    assert.deepEqual([answer.status, answer.body.error.details.issues[0].path], [422, 'cursor'], bad)
  }
  assert.equal((await w.get(`/v1/workspaces?cursor=${cursor}`)).status, 422)
  assert.equal((await w.get(`/v1/workspaces?cursor=${cursor}&state=creating`, headers)).status, 422)
  for (const query of [
    'limit=0',
    'limit=201',
    'limit=x',
    'limit=1&limit=2',
    'state=nope',
    'include_deleted=maybe',
    'key_prefix=%00',
    'project_id=x',
  ]) {
    assert.equal((await w.get(`/v1/workspaces?${query}`, headers)).status, 422, query)
  }
})

test('filters select, and hide sessions and deleted workspaces by default', async () => {
  const as = (await seeder(w.database, w.clock, w.ids).project(w.a.organization_id, 'filters')).key
  const keys = async (query: string, base = '/v1/workspaces') =>
    (await w.get(`${base}?${query}`, { as })).body.data.map((row: { key: string }) => row.key)
  const opened = await w.open('f-creating', {}, { as })
  const running = await w.open('f_running', {}, { as })
  await w.cell.succeed(running.body.operation.id)
  await w.open('f-session', { lifetime: 'session' }, { as })
  await w.call('DELETE', `/v1/workspaces/${(await w.open('f-deleted', {}, { as })).body.workspace.id}`, { as })
  assert.deepEqual(await keys(''), ['f_running', 'f-creating'])
  assert.deepEqual(await keys('state=creating'), ['f-creating'])
  assert.deepEqual(await keys('key_prefix=f_'), ['f_running'])
  assert.deepEqual(await keys('lifetime=session'), ['f-session'])
  assert.deepEqual(await keys('lifetime=any&include_deleted=true'), ['f-deleted', 'f-session', 'f_running', 'f-creating'])
  assert.deepEqual(await keys('desired_state=deleted'), ['f-deleted'])
  assert.deepEqual(await keys('purpose=template_draft'), [])
  assert.deepEqual(await keys('state=creating', `/v1/organizations/${w.a.organization_id}/workspaces`), ['f-creating'])
  assert.deepEqual(await keys(`project_id=${w.a.project_id}`), [])
  assert.deepEqual(await keys(`organization_id=${w.b.organization_id}`), [])
  const operations = await w.get(`/v1/workspaces/${opened.body.workspace.id}/operations?kind=open&state=queued`, { as })
  assert.deepEqual(
    operations.body.data.map((row: { id: string }) => row.id),
    [opened.body.operation.id],
  )
  assert.equal((await w.get(`/v1/workspaces/${opened.body.workspace.id}/operations?kind=suspend`, { as })).body.data.length, 0)
})

test('a person sees only the workspaces of their organizations', async () => {
  const person = await seeder(w.database, w.clock, w.ids).person(w.b.organization_id, 'member')
  await w.open('b-only', {}, { as: w.b.key })
  const seen = (await w.get('/v1/workspaces?lifetime=any&limit=200', { as: person.token })).body.data as { organization_id: string }[]
  assert.deepEqual([...new Set(seen.map((row) => row.organization_id))], [w.b.organization_id])
  assert.equal((await w.get(`/v1/organizations/${w.a.organization_id}/workspaces`, { as: person.token })).status, 404)
})

test('a listing continues with the key that replaces another of the project, and with no key of another project', async () => {
  const { cursor, rest } = await (async () => {
    for (const key of ['go-on-1', 'go-on-2', 'go-on-3']) await w.open(key)
    const all = (await w.get('/v1/workspaces?limit=3')).body.data as { id: string }[]
    const first = await w.get('/v1/workspaces?limit=1')
    return { cursor: first.body.next_cursor as string, rest: all.slice(1).map(({ id }) => id) }
  })()
  assert.equal(rest.length, 2)
  const seeds = seeder(w.database, w.clock, w.ids)
  const next = await seeds.key(w.a.organization_id, w.a.project_id)
  const page = await w.get(`/v1/workspaces?limit=2&cursor=${cursor}`, { as: next.key })
  assert.deepEqual([page.status, page.body.data?.map(({ id }: { id: string }) => id)], [200, rest])
  for (const as of [w.a2.key, w.b.key, (await seeds.person(w.a.organization_id, 'member')).token]) {
    assert.equal((await w.get(`/v1/workspaces?limit=2&cursor=${cursor}`, { as })).status, 422)
  }
})

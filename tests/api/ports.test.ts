import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { hostIdOf } from '../../service/core/workspaces/ports/host-id.ts'
import { until } from '../support/processes.ts'
import { seeder, world, type Answer, type World } from './support.ts'

let w: World
before(async () => {
  w = await world({ file_first: true })
})
after(() => w[Symbol.asyncDispose]())

const path = (id: string, rest = '') => `/v1/workspaces/${id}/ports${rest}`
const expose = (id: string, port = 3000) => w.call('PUT', path(id, `/${port}`))
const said = ({ status, body }: Answer) => [status, body.error.code, body.error.details?.reason]
const digest = (value: string) => createHash('sha256').update(value).digest()
const kept = async (workspace_id: string) =>
  w.database.superuser
    .selectFrom('port_credentials as c')
    .innerJoin('workspace_ports as p', 'p.id', 'c.port_id')
    .select(['c.kind', 'c.sha256', 'c.path', 'c.expires_at'])
    .where('p.workspace_id', '=', workspace_id)
    .orderBy('c.id')
    .execute()
const seconds = ({ body }: Answer) => (Date.parse(body.expires_at) - Date.parse(body.created_at)) / 1000

test('an exposed port has a URL of its workspace, is listed, and stays the same when it is exposed again', async () => {
  const id = await w.running('exposed')
  const first = await expose(id)
  const { created_at, ...record } = first.body
  assert.equal(first.status, 200)
  assert.deepEqual(record, {
    workspace_id: id,
    port: 3000,
    url: `https://3000-${hostIdOf(id)}.ports.test`,
    callback: null,
    requests: 0,
    received_bytes: 0,
    sent_bytes: 0,
    last_request_at: null,
  })
  assert.ok(Date.parse(created_at) > 0)
  await expose(id, 8080)
  assert.deepEqual((await expose(id)).body, first.body)
  assert.deepEqual((await w.get(path(id, '/3000'))).body, first.body)
  const list = (await w.get(path(id))).body
  assert.deepEqual([list.data.map(({ port }: { port: number }) => port), list.next_cursor], [[8080, 3000], null])
  const page = (await w.get(path(id, '?limit=1'))).body
  assert.deepEqual((await w.get(path(id, `?limit=1&cursor=${page.next_cursor}`))).body.data, [first.body])
})

test('a token is shown once with no-store, stored as a digest, and lasts the requested time in any spelling', async () => {
  const id = await w.running('tokens')
  await expose(id)
  const made = await w.post(path(id, '/3000/tokens'))
  assert.match(made.body.token, /^sfp_[A-Za-z0-9_-]{43}$/)
  assert.deepEqual([made.status, made.headers.get('cache-control'), seconds(made)], [201, 'no-store', 3600])
  assert.deepEqual(
    [made.body.token_type, made.body.url, made.body.workspace_id, made.body.port],
    ['Bearer', `https://3000-${hostIdOf(id)}.ports.test`, id, 3000],
  )
  for (const [name, value] of [
    ['ttl_seconds', 60],
    ['ttlSeconds', 61],
    ['ttl', 86_400],
  ] as const) {
    assert.equal(seconds(await w.post(path(id, '/3000/tokens'), { [name]: value })), value)
  }
  assert.deepEqual((await kept(id))[0]?.sha256, digest(made.body.token))
})

test('lifetimes out of bounds, and spellings that disagree, are 422', async () => {
  const id = await w.running('times')
  await expose(id)
  for (const body of [
    { ttl_seconds: 59 },
    { ttl: 86_401 },
    { ttlSeconds: 60.5 },
    { ttl: '60' },
    { ttl: 60, ttl_seconds: 61 },
    { ttl: null },
  ]) {
    assert.equal((await w.post(path(id, '/3000/tokens'), body)).status, 422, JSON.stringify(body))
  }
  for (const body of [{ ttl_seconds: 59 }, { ttl_seconds: 604_801 }, { path: 'x' }, { path: '//evil.test' }, { path: 8 }]) {
    assert.equal((await w.post(path(id, '/3000/links'), body)).status, 422, JSON.stringify(body))
  }
  assert.deepEqual(await kept(id), [])
})

test('a link has a path and its cookie, lasts a day, and only their digests are stored', async () => {
  const id = await w.running('links')
  await expose(id)
  const made = await w.post(path(id, '/3000/links'), { path: '/app?x=ü' })
  assert.deepEqual(
    [made.status, made.headers.get('cache-control'), seconds(made), made.body.path],
    [201, 'no-store', 86_400, '/app?x=%C3%BC'],
  )
  const link = new URL(made.body.url)
  assert.deepEqual([link.host, link.pathname], [`3000-${hostIdOf(id)}.ports.test`, '/__service/link'])
  assert.equal(seconds(await w.post(path(id, '/3000/links'), { ttl: 604_800 })), 604_800)
  const [first, second] = await kept(id)
  assert.deepEqual([first?.kind, first?.path, second?.kind, second?.path], ['link', '/app?x=%C3%BC', 'cookie', null])
  assert.deepEqual(first?.sha256, digest(link.searchParams.get('t') ?? ''))
  assert.equal(said(await w.post(path(id, '/3000/links'), { path: '/\\evil.test' }))[2], 'invalid_path')
})

test('a callback URL is shown once, replaced by the next, and revoked', async () => {
  const id = await w.running('callbacks')
  await expose(id)
  const [one, two] = [await w.post(path(id, '/3000/callback')), await w.post(path(id, '/3000/callback'))]
  const shape = new RegExp(`^https://3000-${hostIdOf(id)}\\.ports\\.test/__service/callback/(sfcb_[A-Za-z0-9_-]{43})/$`)
  assert.match(one.body.url, shape)
  assert.deepEqual([one.status, two.headers.get('cache-control')], [201, 'no-store'])
  assert.deepEqual(
    (await kept(id)).map(({ sha256 }) => sha256),
    [digest(shape.exec(two.body.url)?.[1] ?? '')],
  )
  const { callback, ...rest } = (await w.get(path(id, '/3000'))).body
  assert.deepEqual([callback, JSON.stringify(rest).includes('sfcb_')], [{ created_at: two.body.created_at }, false])
  for (let repeat = 0; repeat < 2; repeat++) assert.equal((await w.call('DELETE', path(id, '/3000/callback'))).status, 204)
  assert.equal((await w.get(path(id, '/3000'))).body.callback, null)
})

test('closing a port invalidates every credential, even when the port is exposed again', async () => {
  const id = await w.running('closed')
  const before = await expose(id)
  for (const what of ['tokens', 'links', 'callback']) await w.post(path(id, `/3000/${what}`))
  assert.equal((await kept(id)).length, 4)
  for (let repeat = 0; repeat < 2; repeat++) assert.equal((await w.call('DELETE', path(id, '/3000'))).status, 204)
  for (const answer of [
    await w.get(path(id, '/3000')),
    await w.post(path(id, '/3000/tokens')),
    await w.post(path(id, '/3000/links')),
    await w.post(path(id, '/3000/callback')),
    await w.call('DELETE', path(id, '/3000/callback')),
  ]) {
    assert.deepEqual(said(answer), [404, 'not_found', undefined])
  }
  const again = await expose(id)
  assert.equal(again.body.url, before.body.url)
  assert.deepEqual(await kept(id), [])
})

test("a port is a number from 1 to 65535, except the agent's own", async () => {
  const id = await w.running('numbers')
  for (const port of ['0', '65536', '-1', '3e3', '3000.5', '%33000x', 'http', '65100']) {
    assert.equal((await w.call('PUT', path(id, `/${port}`))).status, 422, port)
  }
  for (const port of [1, 65_535]) assert.equal((await expose(id, port)).status, 200)
})

test('the record of a change names the port and the credential, and holds neither secret nor digest', async () => {
  const id = await w.running('records')
  await expose(id)
  const { token } = (await w.post(path(id, '/3000/tokens'))).body
  const { url } = (await w.post(path(id, '/3000/callback'))).body
  const events = await w.database.superuser.selectFrom('audit_events').selectAll().where('subject_kind', '=', 'port').execute()
  const of_this = events.filter(({ details }) => (details as { workspace_id?: string }).workspace_id === id)
  assert.deepEqual(of_this.map(({ action }) => action).sort(), ['port-callbacks.create', 'port-tokens.create', 'ports.expose'])
  const text = JSON.stringify(of_this)
  for (const secret of [token, new URL(url).pathname.split('/')[3] ?? '', digest(token).toString('hex')]) assert.ok(!text.includes(secret))
})

test('a deleted workspace has no ports, and a fork begins without ports', async () => {
  const id = await w.running('ends')
  await expose(id)
  await w.post(path(id, '/3000/tokens'))
  const fork = await w.post(`/v1/workspaces/${id}/fork`, { key: 'ends-fork' })
  await w.cell.succeed(fork.body.operation.id)
  assert.deepEqual((await w.get(path(fork.body.workspace.id))).body.data, [])
  await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.deepEqual([(await w.get(path(id))).body.data, await kept(id)], [[], []])
  for (const answer of [await expose(id), await w.call('DELETE', path(id, '/3000')), await w.post(path(id, '/3000/tokens'))]) {
    assert.deepEqual(said(answer), [409, 'conflict', 'workspace_deleted'])
  }
})

test('the ports of a workspace and the credentials of a port are bounded', async () => {
  const id = await w.running('limits')
  for (let port = 1; port <= LIMITS.port.per_workspace_max; port++) assert.equal((await expose(id, port)).status, 200)
  const { status, body } = await expose(id, 4000)
  assert.deepEqual(
    [status, body.error.code, body.error.details.limit, body.error.details.current],
    [403, 'quota_exceeded', 'ports_per_workspace', 50],
  )
  assert.equal((await expose(id, 1)).status, 200)
  const { id: port_id } = await w.database.superuser
    .selectFrom('workspace_ports')
    .select('id')
    .where('workspace_id', '=', id)
    .where('port', '=', 1)
    .executeTakeFirstOrThrow()
  const times = { created_at: w.clock.now(), expires_at: new Date(w.clock.now().getTime() + 120_000) }
  for (const kind of ['token', 'link'] as const) {
    const rows = Array.from({ length: 1000 }, (_, n) => ({
      ...times,
      id: w.ids.next(),
      port_id,
      kind,
      path: kind === 'link' ? '/' : null,
      sha256: digest(`${kind}${n}`),
    }))
    await w.database.superuser.insertInto('port_credentials').values(rows).execute()
    const full = await w.post(path(id, `/1/${kind}s`))
    assert.deepEqual([full.status, full.body.error.details.limit], [403, `${kind}s_per_port`])
  }
  w.clock.ahead_ms += 121_000
  assert.equal((await w.post(path(id, '/1/tokens'))).status, 201)
  w.clock.ahead_ms -= 121_000
})

test('a key without a tool exposes and closes ports but gets no credential; people of the billing role only read', async () => {
  const id = await w.running('who')
  await expose(id)
  const seeds = seeder(w.database, w.clock, w.ids)
  const { key } = await seeds.key(w.a.organization_id, w.a.project_id, [])
  assert.equal((await w.call('PUT', path(id, '/3001'), { as: key })).status, 200)
  for (const what of ['tokens', 'links', 'callback'])
    assert.deepEqual(said(await w.post(path(id, `/3000/${what}`), undefined, { as: key })).slice(0, 2), [403, 'forbidden'])
  const { token } = await seeds.person(w.a.organization_id, 'billing')
  assert.equal((await w.get(path(id), { as: token })).status, 200)
  assert.equal((await w.call('DELETE', path(id, '/3000'), { as: token })).status, 403)
  const member = (await seeds.person(w.a.organization_id, 'member')).token
  assert.equal((await w.post(path(id, '/3000/tokens'), {}, { as: member })).status, 201)
})

const CHANGES: [string, string][] = [
  ['PUT', '/3000'],
  ['DELETE', '/3000'],
  ['POST', '/3000/tokens'],
  ['POST', '/3000/links'],
  ['POST', '/3000/callback'],
  ['DELETE', '/3000/callback'],
]

test('every port change of a file-first or deleted workspace is refused with its reason', async () => {
  const opened = await w.open('ports-of-tree', { mode: 'file_first' })
  assert.equal(opened.status, 200, JSON.stringify(opened.body))
  const tree = opened.body.workspace.id
  const gone = await w.running('ports-of-gone')
  await w.call('DELETE', `/v1/workspaces/${gone}`)
  for (const [method, rest] of CHANGES) {
    const of_tree = await w.call(method, path(tree, rest))
    assert.deepEqual(said(of_tree), [409, 'conflict', 'not_supported_for_mode'], `${method} ${rest}`)
    assert.deepEqual(said(await w.call(method, path(gone, rest))), [409, 'conflict', 'workspace_deleted'], `${method} ${rest}`)
  }
  assert.deepEqual((await w.get(path(tree, ''))).body.data, [])
})

test('a port credential outlives its API key: the record names the key, and closing the port ends the credential', async () => {
  const seeds = seeder(w.database, w.clock, w.ids)
  const { key, key_row_id } = await seeds.key(w.a.organization_id, w.a.project_id)
  const id = await w.running('outlives')
  await expose(id)
  for (const what of ['tokens', 'links', 'callback']) {
    assert.equal((await w.post(path(id, `/3000/${what}`), undefined, { as: key })).status, 201, what)
  }
  const before = await kept(id)
  await w.database.superuser.updateTable('api_keys').set({ revoked_at: w.clock.now() }).where('id', '=', key_row_id).execute()
  await until('it is revoked', 9000, async () => (await w.get('/v1/me', { as: key })).status === 401)
  assert.deepEqual(await kept(id), before)
  const made = await w.database.superuser.selectFrom('audit_events').select('action').where('actor_id', '=', key_row_id).execute()
  assert.equal(made.length, 3, JSON.stringify(made))
  assert.equal((await w.call('DELETE', path(id, '/3000'))).status, 204)
  assert.deepEqual(await kept(id), [])
})

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import { openerOf } from '../../service/core/keys/ring/sealed-values.ts'
import { openSecret } from '../../service/core/secrets/envelope.ts'
import { contentOfTables } from '../generated/tables.ts'
import { seeder, world, type Answer, type CallOptions, type World } from './support.ts'

let w: World
let owner: string
let admin: string
let member: string
before(async () => {
  w = await world()
  const { person } = seeder(w.database, w.clock, w.ids)
  owner = (await person(w.a.organization_id, 'owner')).token
  admin = (await person(w.a.organization_id, 'admin')).token
  member = (await person(w.a.organization_id, 'member')).token
})
after(() => w[Symbol.asyncDispose]())

const ofProject = () => `/v1/projects/${w.a.project_id}/secrets`
const ofOrganization = () => `/v1/organizations/${w.a.organization_id}/secrets`
const create = (body: object, options: CallOptions = {}) => w.post(ofProject(), { value: 'v', ...body }, options)
const createShared = (body: object) => w.post(ofOrganization(), { value: 'v', ...body }, { as: owner })
const bind = (id: string, names: string[]) => w.call('PUT', `/v1/workspaces/${id}/secrets`, { body: { names } })
const bound = async (id: string) => (await w.get(`/v1/workspaces/${id}/secrets`)).body.secrets
const said = ({ status, body }: Answer) =>
  [status, body?.error?.code, body?.error?.details?.reason].filter((part) => part !== undefined).join(' ')

async function valueOf(secret_id: string): Promise<string | null> {
  const row = await w.database.cell
    .selectFrom('secrets as s')
    .innerJoin('secret_versions as v', (join) => join.onRef('v.secret_id', '=', 's.id').onRef('v.version', '=', 's.version'))
    .select(['s.organization_id', 'v.version', 'v.key_id', 'v.wrapped_key', 'v.ciphertext'])
    .where('s.id', '=', secret_id)
    .executeTakeFirstOrThrow()
  const { organization_id, version, key_id, wrapped_key, ciphertext } = row
  if (key_id === null || wrapped_key === null || ciphertext === null) return null
  return openSecret(openerOf([w.sealing_key]), { organization_id, secret_id, version }, { key_id, wrapped_key, ciphertext })
}

test('a secret is stored sealed, and answered without its value', async () => {
  const { status, body } = await create({ name: 'FIRST', description: 'of a shop', value: 'geheim-é' })
  const { id, created_at, ...rest } = body
  assert.deepEqual([status, typeof created_at], [201, 'string'])
  assert.deepEqual(rest, {
    organization_id: w.a.organization_id,
    project_id: w.a.project_id,
    name: 'FIRST',
    description: 'of a shop',
    allowed_project_ids: null,
    allowed_workspace_ids: null,
    allowed_tools: ['exec', 'pty'],
    hosts: null,
    version: 1,
    updated_at: created_at,
    deleted_at: null,
  })
  assert.deepEqual((await w.get(`/v1/secrets/${id}`)).body, body)
  assert.equal(await valueOf(id), 'geheim-é')
  assert.ok((await w.get(ofProject())).body.data.some((each: { id: string }) => each.id === id))
  const rows = await sql<{
    text: string
  }>`select s::text || v::text as text from secrets s join secret_versions v on v.secret_id = s.id`.execute(w.database.superuser)
  assert.ok(
    rows.rows.length > 0 &&
      rows.rows.every(({ text }) => !text.includes('geheim') && !text.includes(Buffer.from('geheim').toString('hex'))),
  )
})

const BAD: [string, object, string][] = [
  ['no value', { value: undefined, name: 'A' }, '422 validation_failed'],
  ['a name with a hyphen', { name: 'A-B' }, '422 validation_failed'],
  ['a name that begins with a digit', { name: '1A' }, '422 validation_failed'],
  ['an empty name', { name: '' }, '422 validation_failed'],
  ['a name with a newline at its end', { name: 'A\n' }, '422 validation_failed'],
  ['a reserved name', { name: 'SERVICE_A' }, '422 validation_failed reserved_prefix'],
  ['NUL', { name: 'A', value: 'a\0b' }, '422 validation_failed nul_character'],
  ['half a surrogate pair', { name: 'A', value: '\ud800' }, '422 validation_failed'],
  ['the placeholder of a secret', { name: 'A', value: `a berth-secret-${'0'.repeat(40)}` }, '422 validation_failed'],
  ['one byte too many', { name: 'A', value: `${'é'.repeat(32_768)}x` }, '422 validation_failed too_large'],
  ['a tool that there is not', { name: 'A', allowed_tools: ['shell'] }, '422 validation_failed'],
  ['projects, of a project', { name: 'A', allowed_project_ids: [] }, '422 validation_failed'],
  ['an unknown field', { name: 'A', secret: 'x' }, '422 validation_failed'],
  ['no host', { name: 'A', hosts: [] }, '422 validation_failed'],
  ['a host that is an address', { name: 'A', hosts: [{ host: '10.0.0.1' }] }, '422 validation_failed'],
  [
    'hosts, and a value that no header carries',
    { name: 'A', value: 'a\r\nb: c', hosts: [{ host: 'a.example.com' }] },
    '422 validation_failed',
  ],
  ['two places of one host', { name: 'A', hosts: [{ host: 'a.example.com', bearer: true, query: 'k' }] }, '422 validation_failed'],
]
for (const [what, body, refusal] of BAD) {
  test(`a secret with ${what} is ${refusal}, and nothing of it is told or kept`, async () => {
    const before = await contentOfTables(w.database.superuser)
    const answer = await create(body)
    assert.equal(said(answer), refusal)
    assert.ok(!JSON.stringify(answer.body).includes('éé'))
    assert.deepEqual(await contentOfTables(w.database.superuser), before)
  })
}

test('a secret of an organization is refused for the same reasons', async () => {
  const { token } = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner')
  for (const [what, body, refusal] of BAD.filter(([, , expected]) => /(reserved_prefix|nul_character|too_large)$/.test(expected))) {
    const answer = await w.post(`/v1/organizations/${w.a.organization_id}/secrets`, { name: 'A', value: 'v', ...body }, { as: token })
    assert.equal(said(answer), refusal, what)
  }
})

test('every problem of hosts is reported with its path and reason', async () => {
  const hosts = [{ host: 'a.example.com', header: 'Host' }, { host: 'localhost' }, { host: '*.com' }]
  const { body } = await create({ name: 'A', hosts })
  const told = body.error.details.issues.map(({ path, reason }: { path: string; reason: string }) => [path, reason])
  assert.deepEqual(told, [
    ['hosts.0.header', 'message_header'],
    ['hosts.1.host', 'local_name'],
    ['hosts.2.host', 'invalid_wildcard'],
  ])
})

test("hosts are normalized, changed and removed, and a rotation's value must suit them", async () => {
  const { body } = await create({ name: 'SENT', hosts: [{ host: 'API.example.com', bearer: true }] })
  assert.deepEqual(body.hosts, [{ host: 'api.example.com', ports: [443], bearer: true }])
  const update = async (hosts: object[] | null) => (await w.call('PATCH', `/v1/secrets/${body.id}`, { body: { hosts } })).body
  assert.deepEqual((await update([{ host: '*.example.com', ports: [8443, 443] }])).hosts, [{ host: '*.example.com', ports: [443, 8443] }])
  const rotate = (value: string) => w.post(`/v1/secrets/${body.id}/versions`, { value })
  assert.equal(said(await rotate('two\nlines')), '422 validation_failed')
  assert.equal((await update(null)).hosts, null)
  assert.equal((await rotate('two\nlines')).status, 201)
})

test('a value of exactly 65536 bytes, an empty one and a multi-line one are stored unchanged', async () => {
  for (const [name, value] of Object.entries({ LARGE: 'é'.repeat(32_768), EMPTY: '', LINES: 'a\r\nb\u0001' })) {
    const { status, body } = await create({ name, value })
    assert.deepEqual([status, await valueOf(body.id)], [201, value])
  }
})

test('a live name is unique in its project; a project and its organization may each use it', async () => {
  const first = await create({ name: 'ONCE' })
  assert.equal(said(await create({ name: 'ONCE' })), '409 conflict name_taken')
  const shared = await createShared({ name: 'ONCE' })
  assert.equal(shared.status, 201)
  assert.equal(said(await createShared({ name: 'ONCE' })), '409 conflict name_taken')
  const other = await w.post(`/v1/projects/${w.a2.project_id}/secrets`, { name: 'ONCE', value: 'v' }, { as: w.a2.key })
  assert.equal(other.status, 201)
  await w.call('DELETE', `/v1/secrets/${first.body.id}`)
  assert.equal((await create({ name: 'ONCE' })).status, 201)
})

test('owners, admins and keys of the project change secrets; members and billing read them', async () => {
  for (const as of [owner, admin]) assert.equal((await create({ name: `OF_${as === owner ? 'OWNER' : 'ADMIN'}` }, { as })).status, 201)
  assert.equal(said(await create({ name: 'OF_MEMBER' }, { as: member })), '403 forbidden')
  const { id } = (await create({ name: 'SEEN' })).body
  assert.equal((await w.get(`/v1/secrets/${id}`, { as: member })).status, 200)
  for (const [method, path, body] of [
    ['PATCH', '', { description: 'x' }],
    ['POST', '/versions', { value: 'x' }],
    ['DELETE', '', undefined],
  ] as const) {
    assert.equal(said(await w.call(method, `/v1/secrets/${id}${path}`, { as: member, body })), '403 forbidden')
  }
  assert.equal(await valueOf(id), 'v')
})

test("an organization's secrets are visible to people, and not found for a key", async () => {
  const { id, project_id } = (await createShared({ name: 'SHARED' })).body
  assert.equal(project_id, null)
  assert.equal(said(await w.get(ofOrganization())), '403 forbidden')
  assert.equal(said(await w.post(ofOrganization(), { name: 'A', value: 'a' })), '403 forbidden')
  assert.equal(said(await w.get(`/v1/secrets/${id}`)), '404 not_found')
  assert.equal(said(await w.call('DELETE', `/v1/secrets/${id}`)), '404 not_found')
  assert.equal((await w.get(`/v1/secrets/${id}`, { as: member })).status, 200)
  assert.ok(
    (await w.get(ofOrganization(), { as: member })).body.data.every((each: { project_id: string | null }) => each.project_id === null),
  )
  assert.ok((await w.get(ofProject())).body.data.every((each: { project_id: string }) => each.project_id === w.a.project_id))
})

test('a rotation stores the next version, erases earlier values and reveals none', async () => {
  const { id } = (await create({ name: 'ROTATED', value: 'one' })).body
  const headers = { 'idempotency-key': 'rotate-1' }
  const second = await w.post(`/v1/secrets/${id}/versions`, { value: 'two' }, { headers })
  assert.deepEqual([second.status, second.body.version, second.body.erased_at], [201, 2, null])
  assert.deepEqual((await w.post(`/v1/secrets/${id}/versions`, { value: 'two' }, { headers })).body, second.body)
  assert.equal(said(await w.post(`/v1/secrets/${id}/versions`, { value: 'three' }, { headers })), '422 idempotency_mismatch')
  assert.equal(await valueOf(id), 'two')
  const { data } = (await w.get(`/v1/secrets/${id}/versions`)).body
  assert.deepEqual(
    data.map((each: { version: number; erased_at: string | null }) => [each.version, each.erased_at === null]),
    [
      [2, true],
      [1, false],
    ],
  )
  const rows = await w.database.superuser.selectFrom('secret_versions').selectAll().where('secret_id', '=', id).orderBy('version').execute()
  assert.deepEqual([rows[0]?.key_id, rows[0]?.wrapped_key, rows[0]?.ciphertext, rows[1]?.key_id], [null, null, null, w.sealing_key.key_id])
  const kept = await sql<{ text: string }>`select string_agg(e::text, ' ') || (select string_agg(a::text, ' ') from audit_events a) as text
    from idempotency_entries e`.execute(w.database.superuser)
  assert.doesNotMatch(kept.rows[0]?.text ?? '', /\btwo\b/)
  for (const [value, refusal] of [['a\0', 'nul_character'], ['x'.repeat(65_537), 'too_large']] as const)
    assert.equal(said(await w.post(`/v1/secrets/${id}/versions`, { value })), `422 validation_failed ${refusal}`) // prettier-ignore
})

test('of two concurrent rotations one is told to try again', async () => {
  const { id } = (await create({ name: 'RACED' })).body
  const { promise, resolve } = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  const other = w.database.superuser.transaction().execute(async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`berth secret ${id}`}, 0))`.execute(tx)
    locked.resolve()
    await promise
  })
  await locked.promise
  const refused = await w.post(`/v1/secrets/${id}/versions`, { value: 'x' })
  assert.deepEqual([said(refused), refused.body.error.retryable], ['409 conflict concurrent_rotation', true])
  resolve()
  await other
  const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => w.post(`/v1/secrets/${id}/versions`, { value: `n${n}` })))
  const done = answers.filter(({ status }) => status === 201).length
  assert.ok(done >= 1 && answers.every((each) => each.status === 201 || said(each) === '409 conflict concurrent_rotation'))
  assert.equal((await w.get(`/v1/secrets/${id}`)).body.version, 1 + done)
})

test('a deleted secret stays readable without any value, leaves the bindings, and refuses changes', async () => {
  const { id } = (await create({ name: 'GONE' })).body
  await w.post(`/v1/secrets/${id}/versions`, { value: 'second' })
  const workspace_id = await w.running('bound-to-gone', { secrets: ['GONE'] })
  assert.equal((await w.call('DELETE', `/v1/secrets/${id}`)).status, 204)
  assert.equal((await w.call('DELETE', `/v1/secrets/${id}`)).status, 204)
  const { body } = await w.get(`/v1/secrets/${id}`)
  assert.equal(typeof body.deleted_at, 'string')
  assert.deepEqual(await bound(workspace_id), [])
  const { data } = (await w.get(`/v1/secrets/${id}/versions`)).body
  assert.ok(data.length === 2 && data.every((each: { erased_at: string | null }) => each.erased_at !== null))
  assert.equal(await valueOf(id), null)
  assert.equal(said(await w.call('PATCH', `/v1/secrets/${id}`, { body: { description: 'x' } })), '409 conflict secret_deleted')
  assert.equal(said(await w.post(`/v1/secrets/${id}/versions`, { value: 'x' })), '409 conflict secret_deleted')
  const ids = async (query: string) => (await w.get(`${ofProject()}?${query}`)).body.data.map((each: { id: string }) => each.id)
  assert.deepEqual([(await ids('limit=200')).includes(id), (await ids('limit=200&include_deleted=true')).includes(id)], [false, true])
  // Workspaces that had the deleted secret do not get a new one of its name.
  await create({ name: 'GONE', value: 'other' })
  assert.deepEqual(await bound(workspace_id), [])
})

test('a change reports its changed fields and keeps the others; an equal body is no change', async () => {
  const { id, updated_at } = (await create({ name: 'CHANGED', description: 'a' })).body
  const same = await w.call('PATCH', `/v1/secrets/${id}`, { body: { description: 'a', allowed_tools: ['exec', 'pty'] } })
  assert.deepEqual([same.status, same.body.updated_at], [200, updated_at])
  const changed = await w.call('PATCH', `/v1/secrets/${id}`, { body: { description: null, allowed_tools: ['exec'] } })
  assert.deepEqual([changed.body.description, changed.body.allowed_tools, changed.body.name], [null, ['exec'], 'CHANGED'])
  assert.equal(said(await w.call('PATCH', `/v1/secrets/${id}`, { body: { name: 'OTHER' } })), '422 validation_failed')
  assert.equal(
    said(await w.call('PATCH', `/v1/secrets/${id}`, { body: { allowed_project_ids: [w.a.project_id] } })),
    '422 validation_failed',
  )
})

test("allowed workspaces and projects must be in the secret's scope, and a workspace that is not allowed cannot bind", async () => {
  const theirs = (await w.open('of-b', {}, { as: w.b.key })).body.workspace.id
  assert.equal(said(await create({ name: 'WIDE', allowed_workspace_ids: [theirs] })), '422 validation_failed')
  assert.equal(said(await createShared({ name: 'WIDE', allowed_project_ids: [w.b.project_id] })), '422 validation_failed')
  const mine = await w.running('t36')
  const { id } = (await create({ name: 'NARROW', allowed_workspace_ids: [mine] })).body
  const other = await w.running('t36-other')
  await w.post(`/v1/projects/${w.b.project_id}/secrets`, { name: 'OF_B', value: 'v' }, { as: w.b.key })
  const before = await contentOfTables(w.database.superuser)
  for (const names of [['NARROW'], ['OF_B'], ['NOBODYS'], ['NARROW', 'OF_B']]) {
    const refused = await bind(other, names)
    assert.deepEqual([said(refused), refused.body.error.details.names], ['422 validation_failed secret_not_available', names.sort()])
    assert.equal(refused.body.error.message, `These secrets are not available: ${names.toSorted().join(', ')}`)
    assert.equal(said(await w.open('t36-new', { secrets: names })), '422 validation_failed secret_not_available')
    assert.equal(said(await w.open('t36-other', { secrets: names })), '422 validation_failed secret_not_available')
  }
  assert.deepEqual(await contentOfTables(w.database.superuser), before)
  assert.deepEqual((await bind(mine, ['NARROW'])).body, { secrets: [{ name: 'NARROW', status: 'available' }] })
  await w.call('PATCH', `/v1/secrets/${id}`, { body: { allowed_workspace_ids: [other] } })
  assert.deepEqual(await bound(mine), [{ name: 'NARROW', status: 'not_allowed' }])
})

test("a project's secret shadows its organization's, which may be limited to some projects", async () => {
  const id = await w.running('shared-names')
  const shared = (await createShared({ name: 'BOTH', allowed_project_ids: [w.a2.project_id] })).body
  assert.equal(said(await bind(id, ['BOTH'])), '422 validation_failed secret_not_available')
  await w.call('PATCH', `/v1/secrets/${shared.id}`, { as: owner, body: { allowed_project_ids: null } })
  assert.deepEqual((await bind(id, ['BOTH'])).body.secrets, [{ name: 'BOTH', status: 'available' }])
  const own = (await create({ name: 'BOTH', allowed_tools: ['exec'] })).body
  assert.deepEqual(await bound(id), [{ name: 'BOTH', status: 'not_allowed' }])
  // Deleting the organization's secret keeps the binding, which now means the project's; deleting the project's removes it.
  await w.call('DELETE', `/v1/secrets/${shared.id}`, { as: owner })
  assert.deepEqual(await bound(id), [{ name: 'BOTH', status: 'not_allowed' }])
  await w.call('DELETE', `/v1/secrets/${own.id}`)
  assert.deepEqual(await bound(id), [])
})

test("deleting an organization's secret removes its bindings, except in a project with its own of that name", async () => {
  const { id } = (await createShared({ name: 'LEAVES' })).body
  const one = await w.running('leaves')
  await bind(one, ['LEAVES'])
  const opened = await w.open('leaves-2', { secrets: ['LEAVES'] }, { as: w.a2.key })
  const other: string = opened.body.workspace.id
  await w.post(`/v1/projects/${w.a2.project_id}/secrets`, { name: 'LEAVES', value: 'v' }, { as: w.a2.key })
  await w.call('DELETE', `/v1/secrets/${id}`, { as: owner })
  assert.deepEqual(await bound(one), [])
  assert.equal((await w.get(`/v1/workspaces/${other}/secrets`, { as: w.a2.key })).body.secrets.length, 1)
})

test('secret names that are variables of the guest, the template or its inputs collide', async () => {
  const id = await w.running('collides')
  for (const name of ['PATH', 'TERM', 'LANG', 'CITY', 'COLOUR']) {
    await create({ name })
    const refused = await bind(id, [name])
    assert.deepEqual([said(refused), refused.body.error.details.name], ['422 validation_failed env_collision', name])
    assert.equal(said(await w.open('collides-new', { secrets: [name] })), '422 validation_failed env_collision')
  }
  assert.deepEqual(await bound(id), [])
})

test('an open binds the named secrets, replaces the bound ones, and keeps them when it names none', async () => {
  for (const name of ['ONE', 'TWO']) await create({ name })
  const id = await w.running('bound', { secrets: ['TWO', 'ONE'] })
  const names = async () => (await bound(id)).map((each: { name: string }) => each.name)
  assert.deepEqual(await names(), ['ONE', 'TWO'])
  assert.equal((await w.open('bound')).status, 200)
  assert.deepEqual(await names(), ['ONE', 'TWO'])
  assert.equal((await w.open('bound', { secrets: ['TWO'] })).status, 200)
  assert.deepEqual(await names(), ['TWO'])
  assert.equal((await w.open('bound', { secrets: [] })).status, 200)
  assert.deepEqual(await names(), [])
})

test('a fork has the bindings of its source, and a deleted workspace accepts none', async () => {
  await create({ name: 'FORKED' })
  const id = await w.running('forked', { secrets: ['FORKED'] })
  const { body } = await w.post(`/v1/workspaces/${id}/fork`, { key: 'fork-of-forked' })
  assert.deepEqual(await bound(body.workspace.id), [{ name: 'FORKED', status: 'available' }])
  await w.call('DELETE', `/v1/workspaces/${id}`)
  assert.equal(said(await bind(id, ['FORKED'])), '409 conflict workspace_deleted')
})

test('at most 50 names are bound, each once', async () => {
  const id = await w.running('fifty')
  const names = Array.from({ length: 51 }, (_, n) => `N${n}`)
  for (const name of names) await create({ name })
  assert.equal((await bind(id, names.slice(1))).body.secrets.length, 50)
  assert.equal(said(await bind(id, names)), '422 validation_failed')
  assert.equal(said(await bind(id, ['N1', 'N1'])), '422 validation_failed')
})

test('a binding that is made while its secret is deleted is refused or removed', async () => {
  for (let turn = 0; turn < 10; turn++) {
    const name = `RACE_${turn}`
    const secret = (await create({ name })).body
    const id = await w.running(`race-${turn}`)
    await Promise.all([bind(id, [name]), w.call('DELETE', `/v1/secrets/${secret.id}`), w.open(`race-new-${turn}`, { secrets: [name] })])
    assert.deepEqual(await bound(id), [])
  }
  const left = await w.database.superuser.selectFrom('workspace_secrets').select('name').where('name', 'like', 'RACE%').execute()
  assert.deepEqual(left, [])
})

test('without a sealing key of a cell no secret value is accepted', async () => {
  await using other = await world()
  await other.database.superuser.deleteFrom('sealing_keys').execute()
  const refused = await other.post(`/v1/projects/${other.a.project_id}/secrets`, { name: 'A', value: 'v' })
  assert.equal(said(refused), '503 dependency_unavailable')
  assert.deepEqual((await other.get(`/v1/projects/${other.a.project_id}/secrets`)).body.data, [])
})

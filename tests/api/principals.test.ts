import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../support/processes.ts'
import { seeder, world, type Answer, type World } from './support.ts'

let w: World
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await world()
  seeds = seeder(w.database, w.clock, w.ids)
})
after(() => w[Symbol.asyncDispose]())

const refusal = ({ status, body }: Answer) => [status, body.error.code]

test('an expiring key is valid until its exact end, even when it was used just before', async () => {
  const expires_at = new Date(w.clock.now().getTime() + 60_000)
  const { key } = await seeds.key(w.a.organization_id, w.a.project_id, ['exec'], expires_at)
  assert.equal((await w.get('/v1/me', { as: key })).status, 200)
  try {
    w.clock.ahead_ms = 60_001
    assert.deepEqual(refusal(await w.get('/v1/me', { as: key })), [401, 'unauthenticated'])
  } finally {
    w.clock.ahead_ms = 0
  }
})

test('a revocation is effective in every process', async () => {
  const { key, key_row_id } = await seeds.key(w.a.organization_id, w.a.project_id)
  const bases = [w.base, await w.second()]
  for (const base of bases) assert.equal((await w.get('/v1/me', { as: key, base })).status, 200)
  await w.database.superuser.updateTable('api_keys').set({ revoked_at: w.clock.now() }).where('id', '=', key_row_id).execute()
  // Less than the time after which a process drops its cache by itself.
  for (const base of bases) await until('it is revoked', 9000, async () => (await w.get('/v1/me', { as: key, base })).status === 401)
})

test('a process that misses notifications forgets a key after 10 seconds', async () => {
  const { key, key_row_id } = await seeds.key(w.a.organization_id, w.a.project_id)
  assert.equal((await w.get('/v1/me', { as: key })).status, 200)
  const { superuser } = w.database
  await superuser.transaction().execute(async (tx) => {
    const { CompiledQuery } = await import('kysely')
    await tx.executeQuery(CompiledQuery.raw(`set local session_replication_role = replica`)) // triggers are off: no process is notified
    await tx.updateTable('api_keys').set({ revoked_at: w.clock.now() }).where('id', '=', key_row_id).execute()
  })
  assert.equal((await w.get('/v1/me', { as: key })).status, 200)
  try {
    w.clock.ahead_ms = 10_001
    assert.deepEqual(refusal(await w.get('/v1/me', { as: key })), [401, 'unauthenticated'])
  } finally {
    w.clock.ahead_ms = 0
  }
})

test('an API key reads its own organization and project, and no other', async () => {
  const organization = await w.get(`/v1/organizations/${w.a.organization_id}`)
  const { created_at: organization_made, ...named } = organization.body
  assert.deepEqual([organization.status, named], [200, { id: w.a.organization_id, name: 'a', slug: 'a', role: null }])
  const project = await w.get(`/v1/projects/${w.a.project_id}`)
  const { created_at: project_made, ...fields } = project.body
  assert.deepEqual([project.status, fields], [200, { id: w.a.project_id, organization_id: w.a.organization_id, name: 'a', slug: 'a' }])
  for (const made of [organization_made, project_made]) assert.match(made, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  for (const path of [
    `projects/${w.a2.project_id}`,
    `projects/${w.b.project_id}`,
    `organizations/${w.b.organization_id}`,
    `organizations/${w.b.organization_id}/projects`,
  ])
    assert.deepEqual(refusal(await w.get(`/v1/${path}`)), [404, 'not_found'], path)
})

test('the Authorization header accepts only one Bearer credential, in any letter case', async () => {
  const status = async (authorization: string) => (await w.get('/v1/me', { as: null, headers: { authorization } })).status
  for (const good of [`Bearer ${w.a.key}`, `bearer ${w.a.key}`, `BEARER   ${w.a.key}`]) assert.equal(await status(good), 200, good)
  for (const bad of [
    w.a.key,
    `Token ${w.a.key}`,
    `Bearer${w.a.key}`,
    `Bearer ${w.a.key} x`,
    `Bearer ${w.a.key}, Bearer ${w.a.key}`,
    'Bearer',
    'Bearer \u00e9',
  ])
    assert.equal(await status(bad), 401, bad)
  assert.equal((await w.get(`/v1/me?access_token=${w.a.key}`, { as: null })).status, 401)
})

test('client versions and the signing keys need no credential, and a wrong one does not matter', async () => {
  for (const [path, cache] of [
    ['/v1/client-versions', 'public, max-age=3600'],
    ['/v1/.well-known/tool-token-keys', 'public, max-age=60'],
  ] as const) {
    for (const as of [null, 'nonsense', w.a.key]) {
      const { status, headers } = await w.get(path, { as })
      assert.deepEqual([status, headers.get('cache-control')], [200, cache], path)
    }
  }
  const { clients } = (await w.get('/v1/client-versions', { as: null })).body as { clients: { release_notes_url: string }[] }
  for (const { release_notes_url } of clients) assert.match(release_notes_url, /^https:\/\/[^/]+\/.*\/releases$/)
})

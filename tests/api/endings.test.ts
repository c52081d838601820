import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { endAll } from '../../service/api/lifecycle/organizations/ender.ts'
import { linkEvents } from '../../service/core/changes/chain-store.ts'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { until } from '../support/processes.ts'
import { refusingWrites } from '../support/refused-writes.ts'
import { openApiDeps } from './ender-deps.ts'
import { refusal } from './auth-support.ts'
import { seeder, SETTINGS } from './support.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
before(async () => {
  w = await worldWithCell({}, { ends_organizations: true })
})
after(() => w[Symbol.asyncDispose]())

const seeds = () => seeder(w.database, w.clock, w.ids)
const db = () => w.database.superuser
const bye = (as: string, confirm_email: string) => w.call('DELETE', '/v1/me', { as, body: { confirm_email } })
const remove = (organization_id: string, confirm_slug: string, as: string) =>
  w.call('DELETE', `/v1/organizations/${organization_id}`, { as, body: { confirm_slug } })
const members = (organization_id: string) =>
  db().selectFrom('memberships').select(['person_id', 'role']).where('organization_id', '=', organization_id).execute()

async function organization(slug: string) {
  const owner_of_slug = { slug, ...(await seeds().tenant(slug, await seeds().plan(`plan-of-${slug}`))) }
  const owner = await seeds().person(owner_of_slug.organization_id, 'owner', { stepped_up: true })
  return { ...owner_of_slug, owner }
}

test('a deleted account loses its credentials, its address is free again, and its row keeps no personal data', async () => {
  const { id, token, email } = await seeds().person(w.a.organization_id, 'member', { stepped_up: true })
  const session_id = await seeds().session(id)
  await db().updateTable('person_sessions').set({ device: 'laptop', address: '203.0.113.7' }).where('id', '=', session_id).execute()
  assert.deepEqual(refusal(await bye(token, 'another@example.com')), [422, 'validation_failed'])
  assert.equal((await bye(token, email.toUpperCase())).status, 204)
  assert.deepEqual(refusal(await w.get('/v1/me', { as: token })), [401, 'unauthenticated'])
  const row = await db().selectFrom('people').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
  assert.deepEqual([row.email, row.display_name, row.deleted_at !== null], [`${id}@deleted.invalid`, null, true])
  const sessions = await db().selectFrom('person_sessions').selectAll().where('person_id', '=', id).execute()
  assert.ok(
    sessions.length === 2 &&
      sessions.every(({ revoked_at, device, address }) => revoked_at !== null && device === null && address === null),
  )
  assert.deepEqual(await db().selectFrom('person_credentials').selectAll().where('person_id', '=', id).execute(), [])
  assert.ok((await members(w.a.organization_id)).every(({ person_id }) => person_id !== id))
  assert.equal((await w.post('/v1/auth/register', { email, password: 'a long enough password' }, { as: null })).status, 202)
  const said = await db()
    .selectFrom('audit_events')
    .select(['action', 'organization_id'])
    .where('subject_id', '=', id)
    .orderBy('id')
    .execute()
  assert.deepEqual(said, [
    { action: 'members.delete', organization_id: w.a.organization_id },
    { action: 'account.delete', organization_id: null },
  ])
  const mails = await db().selectFrom('mails').select('kind').where('email', '=', email).orderBy('id').execute()
  assert.deepEqual(mails.map(({ kind }) => kind), ['account_deleted', 'verify_email']) // prettier-ignore
})

test('the only owner of an organization cannot be deleted; of two owners who are deleted at once, one stays', async () => {
  const { organization_id, owner } = await organization('owned')
  const refused = await bye(owner.token, owner.email)
  assert.deepEqual(refusal(refused), [409, 'conflict/organization_ownership'])
  assert.deepEqual(refused.body.error.details.organization_ids, [organization_id])
  const other = await seeds().person(organization_id, 'owner', { stepped_up: true })
  const both = await Promise.all([bye(owner.token, owner.email), bye(other.token, other.email)])
  assert.deepEqual(both.map(({ status }) => status).sort(), [204, 409]) // prettier-ignore
  assert.equal((await members(organization_id)).length, 1)
})

test('a caller who may not delete an account or an organization is told so', async () => {
  const { organization_id, slug, key, owner } = await organization('refusals')
  assert.deepEqual(refusal(await bye(key, owner.email)), [403, 'forbidden'])
  assert.deepEqual(refusal(await remove(organization_id, slug, key)), [403, 'forbidden'])
  const stale = await seeds().person(organization_id, 'owner')
  assert.deepEqual(refusal(await bye(stale.token, stale.email)), [403, 'step_up_required'])
  assert.deepEqual(refusal(await remove(organization_id, slug, stale.token)), [403, 'step_up_required'])
  const admin = await seeds().person(organization_id, 'admin', { stepped_up: true })
  assert.deepEqual(refusal(await remove(organization_id, slug, admin.token)), [403, 'forbidden'])
  assert.deepEqual(refusal(await remove(organization_id, 'another', owner.token)), [422, 'validation_failed'])
  const stranger = await seeds().person(w.b.organization_id, 'owner', { stepped_up: true })
  assert.deepEqual(refusal(await remove(organization_id, slug, stranger.token)), [404, 'not_found'])
})

test('an operation deletes an organization with its workspaces, volumes, secrets, keys, members and templates', async () => {
  const t = await organization('ending')
  const { organization_id, project_id, owner } = t
  const [running, suspended] = [await w.ready('ending-1', {}, { as: t.key }), await w.ready('ending-2', {}, { as: t.key })]
  await w.ended((await w.post(`/v1/workspaces/${suspended}/suspend`, undefined, { as: t.key })).body.id, { as: t.key })
  const volume = await w.post(`/v1/projects/${project_id}/volumes`, { name: 'kept', quota_gib: 1 }, { as: t.key })
  await w.ended(volume.body.operation.id, { as: t.key })
  await w.post(`/v1/projects/${project_id}/secrets`, { name: 'ONE', value: 'v' }, { as: t.key })
  await w.post(`/v1/organizations/${organization_id}/secrets`, { name: 'TWO', value: 'v' }, { as: owner.token })
  await seeds().template(organization_id, 'own', SETTINGS)
  const member = await seeds().person(organization_id, 'admin')
  await w.post(`/v1/organizations/${organization_id}/invitations`, { email: 'late@example.com', role: 'member' }, { as: owner.token })

  assert.equal((await w.call('PUT', `/v1/workspaces/${running}/ports/3000`, { as: t.key })).status, 200)
  const held = Promise.withResolvers<void>()
  using _ = w.host.intercept('start', 'before', () => held.promise)
  const recipe = { base: 'base', steps: [{ run: 'true' }] }
  const build = (await w.post('/v1/templates/built/builds', { recipe }, { as: t.key })).body

  const deleted = await remove(organization_id, t.slug, owner.token)
  assert.equal(deleted.status, 202)
  assert.deepEqual(await db().selectFrom('workspace_ports').select('id').where('workspace_id', '=', running).execute(), [])
  assert.deepEqual([deleted.body.kind, deleted.body.workspace_id, deleted.body.input.organization_id], ['delete', null, organization_id])
  // The organization has no members now, not even its owner. A process accepts a key until it is notified of its end.
  await until('the key is refused', 30_000, async () => (await w.get(`/v1/workspaces/${running}`, { as: t.key })).status === 401)
  assert.deepEqual(refusal(await w.get(`/v1/organizations/${organization_id}`, { as: member.token })), [404, 'not_found'])
  assert.deepEqual(refusal(await w.open('more', { project_id }, { as: owner.token })), [404, 'not_found'])
  const named: Record<string, string> = { organization_id, project_id, workspace_id: running, volume_id: volume.body.volume.id, slug: 'own', version: '1', port: '8000' } // prettier-ignore
  for (const { method, path, query } of APP_ROUTES) {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
    if (method !== 'GET' || !names.some((name) => ['organization_id', 'project_id', 'workspace_id'].includes(name))) continue
    const at = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => named[name] ?? w.ids.next())
    const { required = [] }: { required?: string[] } = query ?? {}
    const asked = required.map((name) => `${name}=1`).join('&')
    assert.deepEqual(refusal(await w.get(`${at}?${asked}`, { as: owner.token })), [404, 'not_found'], path)
  }
  const over = await w.ended(deleted.body.id, { as: owner.token })
  assert.deepEqual([over.state, over.result], ['succeeded', { workspaces: 2, volumes: 1, secrets: 2, templates: 2 }])
  const { state } = await db().selectFrom('operations').select('state').where('id', '=', build.operation.id).executeTakeFirstOrThrow()
  assert.equal(state, 'canceled')
  held.resolve()

  const of = async (table: 'workspaces' | 'volumes' | 'secrets' | 'templates') =>
    (await db().selectFrom(table).selectAll().where('organization_id', '=', organization_id).execute()) as Record<string, unknown>[]
  assert.deepEqual((await of('workspaces')).map(({ observed_state }) => observed_state), ['deleted', 'deleted']) // prettier-ignore
  assert.deepEqual((await of('volumes')).map(({ state }) => state), ['deleted']) // prettier-ignore
  assert.ok((await of('secrets')).every(({ deleted_at }) => deleted_at !== null))
  assert.ok((await of('templates')).every(({ archived_at }) => archived_at !== null))
  const erased = await db().selectFrom('secret_versions as v').innerJoin('secrets as s', 's.id', 'v.secret_id').select(['v.ciphertext']).where('s.organization_id', '=', organization_id).execute() // prettier-ignore
  assert.deepEqual(erased.map(({ ciphertext }) => ciphertext), [null, null]) // prettier-ignore
  assert.deepEqual(refusal(await w.get(`/v1/organizations/${organization_id}`, { as: owner.token })), [404, 'not_found'])
  assert.deepEqual((await w.get('/v1/me', { as: owner.token })).body.memberships, [])
  assert.equal((await w.get(`/v1/operations/${deleted.body.id}`, { as: owner.token })).body.state, 'succeeded')
  const again = await w.post('/v1/organizations', { name: 'Ending', slug: t.slug }, { as: owner.token })
  assert.deepEqual(refusal(again), [409, 'conflict/name_taken'])
  const said = await db()
    .selectFrom('audit_events')
    .select(['action', 'actor_kind'])
    .where('organization_id', '=', organization_id)
    .orderBy('id')
    .execute()
  const after_delete = said.slice(said.findIndex(({ action }) => action === 'organizations.delete'))
  assert.deepEqual(after_delete.map(({ action, actor_kind }) => `${action} ${actor_kind}`).sort(), [
    'organizations.delete user', 'organizations.end service', 'secrets.delete user', 'secrets.delete user', 'template-builds.cancel user',
    'volumes.delete user', 'workspaces.delete user', 'workspaces.delete user',
  ]) // prettier-ignore
  assert.deepEqual(await members(organization_id), [])
  assert.deepEqual(refusal(await w.get(`/v1/operations/${deleted.body.id}`, { as: member.token })), [404, 'not_found'])
  assert.equal((await bye(owner.token, owner.email)).status, 204)
})

test("a request that was admitted before the organization's deletion began creates nothing in it", async () => {
  const t = await organization('late')
  let hit = () => undefined as void
  const reached = new Promise<void>((resolve) => (hit = resolve))
  let go = () => undefined as void
  const held = new Promise<void>((resolve) => (go = resolve))
  const seen = { done: false }
  let opened: Promise<Awaited<ReturnType<typeof w.open>>>
  {
    using _ = armFailpoint('open.O1', async () => {
      if (seen.done) return
      seen.done = true
      hit()
      await held
    })
    opened = w.open('late', {}, { as: t.key })
    await reached
    assert.equal((await remove(t.organization_id, t.slug, t.owner.token)).status, 202)
    go()
    assert.deepEqual(refusal(await opened), [404, 'not_found'])
  }
  assert.deepEqual(await db().selectFrom('workspaces').select('id').where('organization_id', '=', t.organization_id).execute(), [])
})

test('a deletion continues at every step where a process ended, and two processes at once do each step once', async () => {
  const t = await organization('killed')
  for (const key of ['killed-1', 'killed-2']) await w.ready(key, {}, { as: t.key })
  await w.post(`/v1/projects/${t.project_id}/secrets`, { name: 'ONE', value: 'v' }, { as: t.key })
  const deps = openApiDeps(w)
  let fallen = 0
  const armed = armFailpoint('change.C1', () => {
    fallen += 1
    if (fallen > 1 && fallen < 6) throw new Error('the process ends here') // simulates the end of the process at the change, not an error of the call
  })
  const deleted = await remove(t.organization_id, t.slug, t.owner.token)
  await Promise.all([endAll(deps), endAll(deps)])
  armed[Symbol.dispose]()
  assert.ok(fallen > 1)
  const over = await w.ended(deleted.body.id, { as: t.owner.token })
  assert.equal(over.state, 'succeeded')
  await Promise.all([endAll(deps), endAll(deps)])
  const said = await db().selectFrom('audit_events').select('action').where('organization_id', '=', t.organization_id).where('actor_kind', 'in', ['user', 'service']).execute() // prettier-ignore
  assert.deepEqual(said.map(({ action }) => action).sort(), [
    'organizations.delete', 'organizations.end', 'secrets.delete', 'workspaces.delete', 'workspaces.delete',
  ]) // prettier-ignore
  await linkEvents(w.database.api)
})

test('a deletion whose writes the database refuses for a while continues afterwards', async () => {
  const t = await organization('refused')
  await w.ready('refused-1', {}, { as: t.key })
  await w.post(`/v1/projects/${t.project_id}/secrets`, { name: 'ONE', value: 'v' }, { as: t.key })
  const refusing = await refusingWrites(db(), ['workspaces', 'secrets'])
  const deleted = await remove(t.organization_id, t.slug, t.owner.token)
  assert.equal(deleted.status, 202)
  await refusing.ended()
  assert.equal((await w.ended(deleted.body.id, { as: t.owner.token })).state, 'succeeded')
})

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import pino from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import { ACCOUNT_CONTENT, ORGANIZATION_CONTENT } from '../../service/api/records/exports/content-store.ts'
import { makeAll, type ExportWorkerDeps } from '../../service/api/records/exports/maker.ts'
import { dropExports } from '../../service/api/records/exports/store.ts'
import { linkEvents } from '../../service/core/changes/chain-store.ts'
import type { Database } from '../../service/db/schema.ts'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { readyExport } from '../support/exports.ts'
import { refusingWrites } from '../support/refused-writes.ts'
import { refusal } from './auth-support.ts'
import { seeder, world, type World } from './support.ts'

let w: World
let owner: { id: string; token: string; email: string }
before(async () => {
  w = await world()
  owner = await seeder(w.database, w.clock, w.ids).person(w.a.organization_id, 'owner', { stepped_up: true })
})
after(() => w[Symbol.asyncDispose]())

const seeds = () => seeder(w.database, w.clock, w.ids)
const maker = (more: Partial<ExportWorkerDeps> = {}): ExportWorkerDeps => ({
  db: w.database.api,
  clock: w.clock,
  logger: pino({ level: 'silent' }),
  ...more,
})
const of_organization = (organization_id: string) => `/v1/organizations/${organization_id}/exports`
const begin = async (path: string, as: string) => {
  const answer = await w.post(path, undefined, { as })
  assert.equal(answer.status, 202, JSON.stringify(answer.body))
  return answer.body
}
const content = async (path: string, as: string) => {
  const response = await fetch(`${w.base}${path}/content`, { headers: { authorization: `Bearer ${as}` } })
  assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'application/gzip'])
  return Buffer.from(await response.arrayBuffer())
}

function untar(archive: Buffer): Map<string, Buffer> {
  const tar = gunzipSync(archive)
  const files = new Map<string, Buffer>()
  for (let at = 0; tar[at] !== 0;) {
    const text = (from: number, bytes: number) => tar.toString('latin1', at + from, at + from + bytes).replace(/\0.*$/s, '')
    const size = Number.parseInt(text(124, 12), 8)
    files.set(text(0, 100), tar.subarray(at + 512, at + 512 + size))
    at += 512 + Math.ceil(size / 512) * 512
  }
  return files
}
const lines = (file: Buffer | undefined) =>
  (file?.toString() ?? '').split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as Record<string, unknown>) // prettier-ignore

test("an organization's export has all of its records, lists them in its manifest, and contains no secret value", async () => {
  const { organization_id, project_id } = w.a
  const workspace = await w.running('exported', { inputs: {} })
  await w.post(`/v1/projects/${project_id}/secrets`, { name: 'CANARY', value: 'a-value-that-nobody-sees' }, { as: owner.token })
  await seeds().invoice(organization_id, 0)
  await w.open('of-b', {}, { as: w.b.key })
  await linkEvents(w.database.api)
  const begun = await begin(of_organization(organization_id), owner.token)
  assert.deepEqual([begun.state, begun.organization_id, begun.requested_by, begun.failure], ['queued', organization_id, owner.id, null])
  assert.equal((await begin(of_organization(organization_id), owner.token)).id, begun.id)
  const path = `${of_organization(organization_id)}/${begun.id}`
  const early = await w.get(`${path}/content`, { as: owner.token })
  assert.deepEqual([refusal(early), early.body.error.retryable], [[409, 'conflict'], true])
  await Promise.all([makeAll(maker()), makeAll(maker())])
  const { body: ready } = await w.get(path, { as: owner.token })
  assert.equal(ready.state, 'ready')
  assert.equal(Date.parse(ready.expires_at) - Date.parse(ready.completed_at), LIMITS.export.kept_hours * 3600_000)

  const bytes = await content(path, owner.token)
  assert.deepEqual([bytes.length, createHash('sha256').update(bytes).digest('hex')], [ready.size_bytes, ready.sha256])
  const files = untar(bytes)
  const manifest = JSON.parse(files.get('manifest.json')?.toString() ?? '') as {
    files: { file: string; rows: number; bytes: number; sha256: string }[]
  }
  assert.deepEqual([...files.keys()], [...manifest.files.map(({ file }) => file), 'manifest.json'])
  assert.deepEqual(manifest.files.map(({ file }) => file), ORGANIZATION_CONTENT.map(({ name }) => `${name}.ndjson`)) // prettier-ignore
  for (const { file, rows, bytes: size, sha256 } of manifest.files) {
    const found = files.get(file)
    assert.deepEqual([lines(found).length, found?.length], [rows, size], file)
    assert.equal(createHash('sha256').update(found ?? '').digest('hex'), sha256, file) // prettier-ignore
  }
  const named = (name: string, column: string) => lines(files.get(`${name}.ndjson`)).map((row) => row[column])
  assert.deepEqual(named('organization', 'id'), [organization_id])
  assert.ok(named('workspaces', 'id').includes(workspace))
  assert.deepEqual(named('workspaces', 'key').includes('of-b'), false)
  assert.ok(named('members', 'person_id').includes(owner.id) && named('secrets', 'name').includes('CANARY'))
  assert.deepEqual([named('projects', 'id').includes(project_id), named('invoices', 'id').length], [true, 1])
  assert.deepEqual(named('audit', 'action').filter((action) => action === 'secrets.create'), ['secrets.create']) // prettier-ignore
  const all = [...files.values()].map(String).join('\n')
  assert.deepEqual(
    [all.includes('a-value-that-nobody-sees'), all.includes(w.b.organization_id), all.includes('sfk_')],
    [false, false, false],
  )
})

const NOT_EXPORTED: Partial<Record<keyof Database, string>> = {
  installation: 'of the installation', plans: 'the catalog; the name of the plan is in organization', cells: 'of the installation',
  service_keys: 'of the installation', signing_keys: 'of the installation', sealing_keys: 'of the installation', audit_chains: 'each record has its link',
  person_credentials: 'it signs in', recovery_codes: 'it signs in', email_tokens: 'it signs in', authorities: 'it signs', port_credentials: 'it opens ports',
  workspace_authorities: 'of the machines', machines: 'of the machines', workspace_holds: 'of the machines', workspace_egress: 'of the machines',
  egress_denials: 'kept for a day, and read by its route', usage_counters: 'of the meters', usage_storage: 'of the meters', volume_usage_readings: 'of the meters',
  usage_samples: 'the ledger is made of them', volume_usage_samples: 'the ledger is made of them', usage_entries: 'too many; usage_hours has their sums',
  idempotency_entries: 'answers of a day', rate_buckets: 'of the installation', workspace_keys: 'workspaces have their keys', trees: 'workspaces have their revisions',
  tree_revisions: 'files are read by their routes', tree_keys: 'of the cell', executions: 'the api may not read them', template_uploads: 'gone in days',
  template_build_logs: 'read by their route', template_drafts: 'their workspaces are', template_draft_states: 'their checkpoints are', payment_events: 'which objects of the payment service were looked at, for 30 days',
  unnamed_layers: 'of the installation', layer_lists: 'read by its route', layer_directories: 'read by their route', template_build_steps: 'of the builds', template_captures: 'of the computers', feedback: 'the api may not read it', usage_open_hours: 'not final; usage_hours has what is', exports: 'itself', export_parts: 'itself',
} // prettier-ignore

test('every table is in an export, or is left out for a reason', async () => {
  const texts = [...ORGANIZATION_CONTENT, ...ACCOUNT_CONTENT].map(({ text }) => text).join('\n')
  const rows = await w.database.superuser.introspection.getTables()
  const tables = rows.map(({ name }) => name).filter((name) => name !== 'grants' && !name.startsWith('kysely_'))
  const missing = tables.filter((name) => !new RegExp(`\\b(from|join) ${name}\\b`).test(texts) && !(name in NOT_EXPORTED))
  assert.deepEqual(missing, [])
})

test('an export of an account contains only that account, and is deleted with it', async () => {
  const { id, token, email } = await seeds().person(w.a.organization_id, 'member', { stepped_up: true })
  const begun = await begin('/v1/me/exports', token)
  await makeAll(maker())
  const files = untar(await content(`/v1/me/exports/${begun.id}`, token))
  assert.deepEqual([...files.keys()], [...ACCOUNT_CONTENT.map(({ name }) => `${name}.ndjson`), 'manifest.json'])
  assert.deepEqual(lines(files.get('account.ndjson')).map((row) => [row['id'], row['email']]), [[id, email]]) // prettier-ignore
  assert.deepEqual(lines(files.get('memberships.ndjson')).map((row) => row['organization_id']), [w.a.organization_id]) // prettier-ignore
  assert.equal(lines(files.get('sessions.ndjson')).length, 1)
  assert.equal((await w.get('/v1/me/exports', { as: token })).body.data.length, 1)
  assert.deepEqual(refusal(await w.get(`/v1/me/exports/${begun.id}`, { as: owner.token })), [404, 'not_found'])
  assert.equal((await w.call('DELETE', '/v1/me', { as: token, body: { confirm_email: email } })).status, 204)
  const left = await w.database.superuser.selectFrom('exports').select('id').where('requested_by', '=', id).execute()
  assert.deepEqual(left, [])
})

test('keys, members, outsiders and sessions without a recent password check export nothing', async () => {
  const path = of_organization(w.a.organization_id)
  const export_id = await readyExport(w, { organization_id: w.a.organization_id, requested_by: owner.id })
  const both = async (as: string) => [
    refusal(await w.post(path, undefined, { as })),
    refusal(await w.get(`${path}/${export_id}/content`, { as })),
  ]
  const twice = <T>(one: T) => [one, one]
  assert.deepEqual(await both(w.a.key), twice([403, 'forbidden']))
  assert.deepEqual(await both((await seeds().person(w.a.organization_id, 'member', { stepped_up: true })).token), twice([403, 'forbidden']))
  assert.deepEqual(await both((await seeds().person(w.b.organization_id, 'owner', { stepped_up: true })).token), twice([404, 'not_found']))
  assert.deepEqual(await both((await seeds().person(w.a.organization_id, 'admin')).token), twice([403, 'step_up_required']))
})

test('an archive expires, or is replaced by a newer one, and its answer says so; later its row is deleted', async () => {
  const { organization_id } = await seeds().tenant('expiring', await seeds().plan('expiring'))
  const { token } = await seeds().person(organization_id, 'owner', { stepped_up: true })
  const path = of_organization(organization_id)
  const first = await begin(path, token)
  await makeAll(maker())
  const next = await begin(path, token)
  assert.notEqual(next.id, first.id)
  await content(`${path}/${first.id}`, token) // the content exists until then
  await makeAll(maker())
  assert.deepEqual(refusal(await w.get(`${path}/${first.id}/content`, { as: token })), [409, 'conflict/export_expired'])
  await content(`${path}/${next.id}`, token)
  const later = new Date(w.clock.now().getTime() + LIMITS.export.kept_hours * 3600_000 + 1)
  assert.ok((await dropExports(w.database.api, later, new Date(0))) >= 1)
  assert.deepEqual(refusal(await w.get(`${path}/${next.id}/content`, { as: token })), [409, 'conflict/export_expired'])
  assert.deepEqual((await w.get(path, { as: token })).body.data.map(({ state }: { state: string }) => state), ['expired', 'expired']) // prettier-ignore
  const parts = await w.database.superuser
    .selectFrom('export_parts')
    .select('number')
    .where('export_id', 'in', [first.id, next.id])
    .execute()
  assert.deepEqual(parts, [])
  await dropExports(w.database.api, later, later)
  assert.deepEqual((await w.get(path, { as: token })).body.data, [])
})

test("an account's archive is refused for the same reasons as an organization's", async () => {
  const { token } = await seeds().person(w.a.organization_id, 'member', { stepped_up: true })
  const path = '/v1/me/exports'
  const first = await begin(path, token)
  assert.deepEqual(refusal(await w.get(`${path}/${first.id}/content`, { as: token })), [409, 'conflict'])
  await makeAll(maker())
  await content(`${path}/${first.id}`, token)
  const next = await begin(path, token)
  await makeAll(maker({ bounds: { raw_bytes_max: 100, file_bytes_max: 100 } }))
  assert.deepEqual(refusal(await w.get(`${path}/${next.id}/content`, { as: token })), [409, 'conflict/export_too_large'])
  const later = new Date(w.clock.now().getTime() + LIMITS.export.kept_hours * 3600_000 + 1)
  await dropExports(w.database.api, later, new Date(0))
  assert.deepEqual(refusal(await w.get(`${path}/${first.id}/content`, { as: token })), [409, 'conflict/export_expired'])
})

test('a too large export is refused and leaves nothing; a too long file is split', async () => {
  const { organization_id } = await seeds().tenant('large', await seeds().plan('large'))
  const { token } = await seeds().person(organization_id, 'owner', { stepped_up: true })
  for (let n = 0; n < 20; n++) await seeds().grant(organization_id, { note: `${n} ${'x'.repeat(100)}` })
  const path = of_organization(organization_id)
  const { id } = await begin(path, token)
  await makeAll(maker({ bounds: { raw_bytes_max: 2000, file_bytes_max: 1000 } }))
  assert.deepEqual(refusal(await w.get(`${path}/${id}/content`, { as: token })), [409, 'conflict/export_too_large'])
  assert.deepEqual(await w.database.superuser.selectFrom('export_parts').select('number').where('export_id', '=', id).execute(), [])
  const other = await begin(path, token)
  await makeAll(maker({ bounds: { raw_bytes_max: 1 << 20, file_bytes_max: 1000 } }))
  const files = untar(await content(`${path}/${other.id}`, token))
  const grants = [...files.keys()].filter((name) => name.startsWith('usage_grants.'))
  assert.ok(grants.length > 3 && grants[1] === 'usage_grants.2.ndjson', grants.join())
  assert.ok(grants.every((name) => (files.get(name)?.length ?? 0) <= 1000))
  assert.equal(grants.flatMap((name) => lines(files.get(name))).length, 20)
})

test('another process takes over an export from a dead one, a superseded process ends nothing, and the last try fails', async () => {
  const { organization_id } = await seeds().tenant('dying', await seeds().plan('dying'))
  const { token } = await seeds().person(organization_id, 'owner', { stepped_up: true })
  const path = of_organization(organization_id)
  const { id } = await begin(path, token)
  const die = () => {
    throw new Error('the process ends here')
  }
  {
    using _ = armFailpoint('export.X1', die)
    await makeAll(maker())
  }
  assert.equal((await w.get(`${path}/${id}`, { as: token })).body.state, 'running')
  // Another process takes over from the stalled one, whose later writes are ignored.
  const taken = { stood_still: false }
  w.clock.ahead_ms += 61_000
  {
    using _ = armFailpoint('export.X1', async () => {
      if (taken.stood_still) return
      taken.stood_still = true
      w.clock.ahead_ms += 61_000
      await makeAll(maker())
    })
    await makeAll(maker())
  }
  const { body: ready } = await w.get(`${path}/${id}`, { as: token })
  assert.deepEqual([ready.state, taken.stood_still], ['ready', true])
  const bytes = await content(`${path}/${id}`, token)
  assert.equal(createHash('sha256').update(bytes).digest('hex'), ready.sha256)
  const parts = await w.database.superuser.selectFrom('export_parts').select('attempt').distinct().where('export_id', '=', id).execute()
  assert.deepEqual(parts, [{ attempt: 3 }])

  const doomed = await begin(path, token)
  {
    using _ = armFailpoint('export.X1', die)
    for (let tries = 0; tries <= LIMITS.export.attempts_max; tries++) {
      await makeAll(maker())
      w.clock.ahead_ms += 61_000
    }
  }
  const failed = await w.get(`${path}/${doomed.id}/content`, { as: token })
  assert.deepEqual([refusal(failed), failed.body.error.retryable], [[409, 'conflict'], false])
  assert.equal((await w.get(`${path}/${doomed.id}`, { as: token })).body.failure, 'internal_error')
})

test('an export that the database refuses to store for a while is made by a later try', async () => {
  const { organization_id } = await seeds().tenant('refused', await seeds().plan('refused'))
  const { token } = await seeds().person(organization_id, 'owner', { stepped_up: true })
  const path = of_organization(organization_id)
  const { id } = await begin(path, token)
  const refusing = await refusingWrites(w.database.superuser, ['export_parts'])
  for (let tries = 0; tries < 2; tries++, w.clock.ahead_ms += 61_000) await makeAll(maker())
  assert.equal((await w.get(`${path}/${id}`, { as: token })).body.state, 'running')
  await refusing.ended()
  await makeAll(maker())
  assert.equal((await w.get(`${path}/${id}`, { as: token })).body.state, 'ready')
})

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CompiledQuery, sql } from 'kysely'
import type { Principal } from '../../service/http/call.ts'
import { endOfPrefix, findWorkspaces } from '../../service/api/workspaces/list-store.ts'
import { counting } from '../support/plans.ts'
import { world, type World } from './support.ts'

const COMMON = 20_000
/** A scan of the newest thousand rows, and a page by an index. */
const ROWS_MAX = 2500

let w: World
let key: Principal
let person: Principal
before(async () => {
  w = await world()
  const { organization_id, project_id } = w.a
  key = { type: 'api_key', id: w.a.key_row_id, key_id: 'k', organization_id, project_id, tool_permissions: [] }
  person = {
    type: 'user',
    id: w.ids.next(),
    email: 'a@example.com',
    memberships: [{ organization_id, role: 'owner' }],
    session: { id: w.ids.next(), stepped_up_at: null },
  }
  // The filters match the oldest rows; all newer ones are different.
  await insert(3, 'rare', { observed_state: 'failed' })
  await insert(3, 'idle', { observed_state: 'suspended', desired_state: 'suspended' })
  await insert(3, 'draft', { purpose: 'template_draft' })
  await insert(3, 'gone', { observed_state: 'deleted', desired_state: 'deleted', deleted_at: w.clock.now() })
  await insert(3, 'session', { observed_state: 'suspended', lifetime: 'session' })
  await insert(200, 'agent', {})
  await insert(COMMON, 'old', { lifetime: 'session', observed_state: 'deleted', desired_state: 'deleted', deleted_at: w.clock.now() })
  await insert(COMMON, 'test', { lifetime: 'session', purpose: 'template_test' })
  await sql`analyze workspaces`.execute(w.database.superuser)
})
after(() => w[Symbol.asyncDispose]())

async function insert(count: number, prefix: string, change: object): Promise<void> {
  const { organization_id, project_id } = w.a
  const { id: template_version_id } = await w.database.superuser.selectFrom('template_versions').select('id').executeTakeFirstOrThrow()
  const row = {
    organization_id,
    project_id,
    template_version_id,
    observed_state: 'running',
    desired_state: 'running',
    lifetime: 'persistent',
    mode: 'processful',
    purpose: 'standard',
    disk_layout: 'layered',
    ceiling_cpu_millis: 1,
    ceiling_memory_mib: 1,
    ceiling_disk_gib: 1,
    active_at: w.clock.now(),
    created_at: w.clock.now(),
    updated_at: w.clock.now(),
    deleted_at: null,
    ...change,
  }
  const names = Object.keys(row)
  const ids = Array.from({ length: count }, () => w.ids.next())
  await w.database.superuser.transaction().execute(async (tx) => {
    await sql`set local session_replication_role = replica`.execute(tx) // no process listens for these rows
    const columns = names.map((name, n) => `$${n + 3}::text::${/_at$/.test(name) ? 'timestamptz' : /_id$/.test(name) ? 'uuid' : /^ceiling/.test(name) ? 'integer' : 'text'}`) // prettier-ignore
    const text = `insert into workspaces (id, key, ${names.join(', ')})
      select id, $2 || '-' || n, ${columns.join(', ')} from unnest($1::uuid[]) with ordinality as made(id, n)`
    const values = Object.values(row).map((value) => (value instanceof Date ? value.toISOString() : value === null ? null : String(value)))
    await tx.executeQuery(CompiledQuery.raw(text, [ids, prefix, ...values]))
  })
}

const LISTS: [name: string, filters: Parameters<typeof findWorkspaces>[2]][] = [
  ['no filter', {}],
  ['state', { state: 'failed' }],
  ['state of the deleted', { state: 'deleted' }],
  ['state that none has', { state: 'stopping' }],
  ['desired_state', { desired_state: 'suspended' }],
  ['desired_state of the deleted', { desired_state: 'deleted' }],
  ['a key_prefix that is rare', { key_prefix: 'rare-' }],
  ['a key_prefix that is common among the older', { key_prefix: 'agent-' }],
  ['a key_prefix that is common', { key_prefix: 'test-', lifetime: 'any', purpose: 'any' }],
  ['a key_prefix that none has', { key_prefix: 'none' }],
  ['include_deleted', { include_deleted: true }],
  ['lifetime', { lifetime: 'session' }],
  ['lifetime any', { lifetime: 'any' }],
  ['purpose', { purpose: 'template_draft' }],
  ['purpose any', { purpose: 'any' }],
  ['several at once', { state: 'suspended', lifetime: 'any', purpose: 'any', include_deleted: true }],
]
for (const [name, filters] of LISTS) {
  test(`a list by ${name} reads what it lists, not its project, for a key and for a person, on its second page too`, async () => {
    for (const who of [key, person]) {
      const newest = await w.database.superuser.selectFrom('workspaces').select('id').orderBy('id', 'desc').executeTakeFirstOrThrow()
      for (const below of [null, newest.id]) {
        for (const plan of ['generic', 'custom'] as const) {
          const { counted, reads } = counting(w.database.superuser, 'workspaces', plan)
          await findWorkspaces(reads, who, filters, { limit: 50, below })
          const { rows } = counted
          assert.ok(rows <= ROWS_MAX, `${rows} rows, ${plan} plan, ${who.type}`)
        }
      }
    }
  })
}

test('a prefix ends before the next text of its length, whatever its last character', () => {
  const cases = [
    ['a', 'b'],
    ['ab\u{10ffff}', 'ac'],
    ['\u{d7ff}', '\u{e000}'],
    ['😀', '😁'],
    ['\u{10ffff}', null],
  ] as const
  for (const [prefix, end] of cases) assert.equal(endOfPrefix(prefix), end)
})

test('a prefix of any characters finds exactly its keys, even when they are not among the newest', async () => {
  await insert(1, 'ż%_\\ü', {})
  await insert(1, 'ż%_\\ý', {})
  await insert(1, '\u{d7ff}', {})
  await insert(1, '\u{e000}', {})
  await insert(1, '\u{10ffff}', {})
  await insert(1200, 'newer', {})
  for (const [prefix, count] of [
    ['ż%', 2],
    ['ż%_\\ü', 1],
    ['ż_', 0],
    ['Ż', 0],
    ['\u{d7ff}', 1],
    ['\u{10ffff}', 1],
    ['rare', 3],
    ['new', 50],
  ] as const) {
    // prettier-ignore
    const { body } = await w.get(`/v1/workspaces?key_prefix=${encodeURIComponent(prefix)}`)
    const keys = body.data.map((row: { key: string }) => row.key)
    assert.equal(keys.length, count, prefix)
    assert.ok(keys.every((each: string) => each.startsWith(prefix)))
  }
})

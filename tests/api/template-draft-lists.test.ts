import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql, type RawBuilder } from 'kysely'
import { listInstances, listStates } from '../../service/api/templates/drafts/store.ts'
import { draftState } from '../support/drafts.ts'
import { counting } from '../support/plans.ts'
import { seeder, SETTINGS, world, type World } from './support.ts'

const MANY = 2000

let w: World
let draft_id: string
before(async () => {
  w = await world()
  const seeds = seeder(w.database, w.clock, w.ids)
  const { superuser: db } = w.database
  const drafts: string[] = []
  for (const slug of ['one', 'other']) {
    await seeds.template(w.a.organization_id, slug, SETTINGS)
    const { draft, operation } = (await w.post(`/v1/templates/${slug}/draft`)).body
    await w.cell.succeed(operation.id)
    for (let made = 0; made < 15; made++) await draftState(w, draft.workspace_id)
    for (let made = 0; made < 15; made++) await w.post(`/v1/templates/${slug}/draft/test-instances`)
    drafts.push(draft.id)
  }
  draft_id = drafts[0] ?? ''
  // Without triggers, these rows send no notifications.
  await db.transaction().execute(async (tx) => {
    await sql`set local session_replication_role = replica`.execute(tx)
    await sql`insert into template_draft_states (id, draft_id, operation_id, created_at)
      select ${id()}, md5((n / 50)::text)::uuid, ${id()}, now() from generate_series(1, ${MANY}) n`.execute(tx)
    const copies = (key: string, state: RawBuilder<unknown>) => sql`insert into workspaces
      select (jsonb_populate_record(w, jsonb_build_object('id', gen_random_uuid(), 'key', ${key}::text || n, 'draft_state_id', ${state}))).*
      from workspaces w, generate_series(1, ${MANY}) n where w.id = (select id from workspaces where draft_state_id is null limit 1)`
    await copies('many', sql`null`).execute(tx)
    await copies('tried', id()).execute(tx)
  })
  await sql`analyze`.execute(db)
})
after(() => w[Symbol.asyncDispose]())

function id() {
  return sql`('01920000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
}

for (const plan of ['generic', 'custom'] as const) {
  test(`states and test instances of a draft are read by an index, those of other drafts are not looked at: ${plan} plan`, async () => {
    for (const below of [null, 'ffffffff-ffff-7fff-8fff-ffffffffffff']) {
      const states = counting(w.database.superuser, 'template_draft_states', plan)
      assert.equal((await listStates(states.reads, draft_id, { limit: 10, below })).length, 11)
      assert.ok(!states.counted.scanned.has('template_draft_states') && states.counted.rows <= 40, JSON.stringify(states.counted.rows))
      const instances = counting(w.database.superuser, 'workspaces', plan)
      assert.equal((await listInstances(instances.reads, draft_id, true, { limit: 10, below })).length, 11)
      assert.ok(!instances.counted.scanned.has('workspaces') && instances.counted.rows <= 60, JSON.stringify(instances.counted.rows))
    }
  })
}

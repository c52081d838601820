import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { errorsOf } from '../../contract/route-errors.ts'
import { APP_ROUTES } from '../../contract/routes/app/all.ts'
import { seeder, SETTINGS, world, type Tenant, type World } from '../api/support.ts'
import type { Database } from '../../service/db/schema.ts'
import { draftState } from '../support/drafts.ts'
import { said } from './app-world.ts'
import { asTree } from './scenes.ts'
import { contentOfTables } from './tables.ts'

let w: World
before(async () => {
  w = await world()
})
after(() => w[Symbol.asyncDispose]())

/** A volume starts no machine, and has its own limits: tests/api/volumes.test.ts. */
const starts = APP_ROUTES.filter(({ id, errors }) => 'entitlement_required' in errors && id !== 'volumes.create')

async function tenant(slug: string): Promise<Tenant & { plan_id: string; start: Record<string, () => ReturnType<World['call']>> }> {
  const seeds = seeder(w.database, w.clock, w.ids)
  const plan_id = await seeds.plan(slug)
  const made = await seeds.tenant(slug, plan_id)
  const as = made.key
  const opened = async (key: string) => {
    const { body } = await w.open(key, {}, { as })
    await w.cell.succeed(body.operation.id)
    return body.workspace.id as string
  }
  const [running, sleeping, tree] = [await opened('running'), await opened('sleeping'), await opened('tree')]
  await asTree(w, tree)
  await w.cell.succeed((await w.post(`/v1/workspaces/${sleeping}/suspend`, undefined, { as })).body.id)
  await seeds.template(made.organization_id, 'tried', SETTINGS)
  await seeds.template(made.organization_id, 'drafted', SETTINGS)
  const { draft, operation } = (await w.post('/v1/templates/drafted/draft', {}, { as })).body
  await w.cell.succeed(operation.id)
  await draftState(w, draft.workspace_id)
  const start = {
    'workspaces.open': () => w.open('new', {}, { as }),
    'test-instances.create': () => w.post('/v1/templates/tried/versions/1/test-instances', {}, { as }),
    'test-instances.create_of_organization': () =>
      w.post(`/v1/organizations/${made.organization_id}/templates/tried/versions/1/test-instances`, {}, { as }),
    'drafts.create': () => w.post('/v1/templates/tried/draft', {}, { as }),
    'drafts.create_of_organization': () => w.post(`/v1/organizations/${made.organization_id}/templates/tried/draft`, {}, { as }),
    'draft-test-instances.create': () => w.post('/v1/templates/drafted/draft/test-instances', {}, { as }),
    'draft-test-instances.create_of_organization': () =>
      w.post(`/v1/organizations/${made.organization_id}/templates/drafted/draft/test-instances`, {}, { as }),
    'template-builds.create': () => w.post('/v1/templates/built/builds', { recipe: { base: 'base' } }, { as }),
    'template-builds.create_of_organization': () =>
      w.post(`/v1/organizations/${made.organization_id}/templates/built/builds`, { recipe: { base: 'base' } }, { as }),
    'workspaces.resume': () => w.post(`/v1/workspaces/${sleeping}/resume`, {}, { as }),
    'workspaces.fork': () => w.post(`/v1/workspaces/${running}/fork`, { key: 'fork' }, { as }),
    'workspaces.fork_tree': () => w.post(`/v1/workspaces/${tree}/tree/fork`, { key: 'fork-tree' }, { as }),
  }
  return { ...made, plan_id, start }
}

for (const route of starts) {
  const reasonsOf = (code: string) => (errorsOf(route)[code] ?? []).filter((reason) => reason !== null)

  test(`${route.id} is refused by every state of a plan that refuses starts, and changes nothing`, async () => {
    const { plan_id, organization_id, start } = await tenant(route.id)
    const send = start[route.id]
    assert.ok(send, `say how ${route.id} starts something`)
    const plans = w.database.superuser.updateTable('plans').where('id', '=', plan_id)
    const organizations = w.database.superuser.updateTable('organizations').where('id', '=', organization_id)
    const refused = async (expected: string) => {
      const before = await contentOfTables(w.database.superuser)
      assert.equal(said(await send()), expected)
      assert.deepEqual(await contentOfTables(w.database.superuser), before)
    }
    for (const reason of reasonsOf('entitlement_required')) {
      const missing = reason === 'limits_missing'
      const refuses_starts = missing ? null : (reason as Database['plans']['refuses_starts'])
      await plans.set({ refuses_starts, missing_limits: missing ? ['memory_mib'] : [] }).execute()
      await refused(`402 entitlement_required/${reason}`)
    }
    await plans.set({ refuses_starts: null, missing_limits: [] }).execute()
    for (const reason of reasonsOf('allowance_exhausted')) {
      await organizations.set({ allowance_exhausted: reason as Database['organizations']['allowance_exhausted'] }).execute()
      await refused(`402 allowance_exhausted/${reason}`)
    }
    await organizations.set({ allowance_exhausted: null }).execute()
    await plans.set({ concurrent_workspaces: 1, concurrent_template_builds: 0 }).execute()
    // File-first workspaces are not charged to the limit of running workspaces.
    if ('quota_exceeded' in route.errors) await refused('403 quota_exceeded')
    await plans.set({ concurrent_workspaces: null, concurrent_template_builds: null }).execute()
    assert.equal(said(await send()), 'quota_exceeded' in route.errors ? '202' : '201')
  })
}

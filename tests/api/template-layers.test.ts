import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { LIMITS } from '../../contract/limits.ts'
import { collectLayers, type CollectContext } from '../../service/cell/operations/layers/collect.ts'
import { namedLayers } from '../../service/cell/operations/layers/store.ts'
import { buildSubject } from '../../service/cell/host/subject.ts'
import { armFailpoint } from '../../service/lib/failpoints.ts'
import { draftState } from '../support/drafts.ts'
import { until } from '../support/processes.ts'
import { worldWithCell, type CellWorld } from './with-cell.ts'

let w: CellWorld
let context: CollectContext
const DAY = 24 * 3600
const QUARANTINE_DAYS = 7

before(async () => {
  w = await worldWithCell()
  const { cell_id, clock, host } = w
  context = { cell_id, clock, host, db: w.database.cell, log: pino({ level: 'silent' }), quarantine_days: QUARANTINE_DAYS }
})
after(() => w[Symbol.asyncDispose]())

/** No row names this layer. */
async function made(text: string): Promise<string> {
  const build_id = randomUUID()
  const fence = { subject: buildSubject(build_id), operation_id: randomUUID(), step: 'start', epoch: 1, fence: 1 }
  const resources = { cpu_millis: 100, memory_mib: 128, disk_gib: 1 }
  const machine = await w.host.start({ ...fence, resources, hostname: 'build', layers: ['0'.repeat(64)] })
  w.host.guest(buildSubject(build_id)).files.set('/made', text)
  await w.host.stop({ ...fence, step: 'stop' })
  const layer = await w.host.makeLayer({ ...fence, step: 'layer', disk: machine.disk, bytes_max: 2 ** 20, entries_max: 100 })
  await w.host.deleteSubject({ ...fence, step: 'end' })
  return layer.digest
}
const look = () => collectLayers(context)
const unnamed = async () => (await w.database.superuser.selectFrom('unnamed_layers').select('layer').execute()).map(({ layer }) => layer)
const here = async () => (await w.host.layers()).layers.map(({ digest }) => digest)
async function step(layer: string, used_at: Date, organization_id = w.a.organization_id): Promise<void> {
  const row = { organization_id, cell_id: w.cell_id, key: randomUUID(), layer, used_at }
  await w.database.superuser.insertInto('template_build_steps').values(row).execute()
}

test('an unnamed image is noted, kept for the days of the quarantine, and removed', async () => {
  const layer = await made('nobody names it')
  assert.deepEqual([await look(), (await unnamed()).includes(layer)], [[], true])
  w.advance((QUARANTINE_DAYS - 1) * DAY)
  assert.deepEqual([await look(), (await here()).includes(layer)], [[], true])
  w.advance(DAY)
  assert.deepEqual(await look(), [layer])
  assert.deepEqual([(await here()).includes(layer), await unnamed()], [false, []])
})

test('the quarantine of an image starts again after it was named meanwhile', async () => {
  const layer = await made('named again')
  await look()
  w.advance((QUARANTINE_DAYS - 1) * DAY)
  await step(layer, w.clock.now())
  await look()
  assert.deepEqual(await unnamed(), [])
  await w.database.superuser.deleteFrom('template_build_steps').where('layer', '=', layer).execute()
  w.advance(2 * DAY)
  assert.deepEqual([await look(), await unnamed()], [[], [layer]])
  w.advance(QUARANTINE_DAYS * DAY)
  assert.deepEqual(await look(), [layer])
})

test('a version keeps its layers, even when it is unpublished or archived', async () => {
  const id = await w.ready('layers-of-a-version')
  w.host.guest(id).files.set('/home/user/kept', 'in a version')
  const { body } = await w.post(`/v1/workspaces/${id}/save-as-template`, { template_slug: 'kept-layers' })
  await until('the build is over', 60_000, async () => (await w.get(`/v1/template-builds/${body.build.id}`)).body.completed_at !== null)
  const [layer = ''] = (await w.get('/v1/templates/kept-layers/versions/1')).body.layers.slice(-1)
  await w.database.superuser.updateTable('template_versions').set({ archived_at: w.clock.now() }).execute()
  await look()
  w.advance(30 * DAY)
  assert.deepEqual([await look(), (await here()).includes(layer)], [[], true])
  await w.database.superuser.updateTable('template_versions').set({ archived_at: null }).execute()
})

test('a running build keeps the layers that it begins with', async () => {
  const layer = await made('of a build')
  const db = w.database.superuser
  const build = await db.selectFrom('template_builds').selectAll().executeTakeFirstOrThrow()
  const operation = await db.selectFrom('operations').selectAll().where('id', '=', build.operation_id).executeTakeFirstOrThrow()
  const of = { spec: JSON.stringify({ layers: [layer] }) }
  // The transaction hides these rows from the cell, which would otherwise run the build.
  await db.transaction().execute(async (tx) => {
    const named = async () => [...(await namedLayers(tx, w.cell_id, [layer]))]
    const { completed_at, state } = operation
    await tx.updateTable('template_builds').set(of).where('id', '=', build.id).execute()
    assert.deepEqual(await named(), [])
    await tx.updateTable('operations').set({ completed_at: null, state: 'running' }).where('id', '=', operation.id).execute()
    assert.deepEqual(await named(), [layer])
    await tx.updateTable('operations').set({ completed_at, state }).where('id', '=', operation.id).execute()
    await tx
      .updateTable('template_builds')
      .set({ spec: JSON.stringify(build.spec) })
      .where('id', '=', build.id)
      .execute()
  })
})

test('a build step expires when it is unused for long or its organization has too many; then its image goes', async () => {
  const { step_unused_days, steps_per_organization_max } = LIMITS.template_layer
  const ago = (seconds: number) => new Date(w.clock.now().getTime() - seconds * 1000)
  const [old, young] = [await made('of an old step'), await made('of a young step')]
  await step(old, ago(step_unused_days * DAY + 60))
  await step(young, ago(step_unused_days * DAY - 60))
  await look()
  const gone = await unnamed()
  assert.deepEqual([gone.includes(old), gone.includes(young)], [true, false])
  const organization_id = w.b.organization_id
  const row = (number: number) => ({ organization_id, cell_id: w.cell_id, key: `${number}`, layer: 'd'.repeat(64), used_at: ago(number) })
  const rows = Array.from({ length: steps_per_organization_max + 2 }, (_, number) => row(number))
  await w.database.superuser.insertInto('template_build_steps').values(rows).execute()
  await look()
  const left = await w.database.superuser
    .selectFrom('template_build_steps')
    .select('key')
    .where('organization_id', '=', organization_id)
    .execute()
  assert.deepEqual(left.map(({ key }) => Number(key)).sort((a, b) => a - b), rows.slice(0, -2).map((_, number) => number)) // prettier-ignore
})

test('versions of a deleted organization name their layers as long as a workspace uses them', async () => {
  const layer = await made('of an organization that ends')
  const db = w.database.superuser
  const of = {
    id: randomUUID(),
    organization_id: w.b.organization_id,
    slug: 'ending',
    created_at: w.clock.now(),
    archived_at: w.clock.now(),
  }
  await db.insertInto('templates').values(of).execute()
  const version = { id: randomUUID(), template_id: of.id, version: 1, layered: true, layers: [layer], settings: '{}' }
  await db.insertInto('template_versions').values({ ...version, created_at: w.clock.now(), published_at: null, archived_at: null }).execute() // prettier-ignore
  const named = async () => (await namedLayers(w.database.cell, w.cell_id, [layer])).has(layer)
  assert.equal(await named(), true)
  const ends = (deleted_at: Date | null) =>
    db.updateTable('organizations').set({ deleted_at }).where('id', '=', w.b.organization_id).execute()
  await ends(w.clock.now())
  assert.equal(await named(), false)
  const id = await w.ready('layers-stands-on-it')
  const before = await db.selectFrom('workspaces').select('template_version_id').where('id', '=', id).executeTakeFirstOrThrow()
  await db.updateTable('workspaces').set({ template_version_id: version.id }).where('id', '=', id).execute()
  assert.equal(await named(), true)
  await db.updateTable('workspaces').set(before).where('id', '=', id).execute()
  await ends(null)
})

test('a draft state keeps its layer until it is discarded, and a test instance until it is deleted', async () => {
  const layer = await made('a state of a draft')
  const { workspace } = (await w.post('/v1/templates/kept-layers/draft', { base: 'base@1' })).body
  const id = await draftState(w, workspace.id)
  const db = w.database.superuser
  await db
    .updateTable('template_draft_states')
    .set({ layers: [layer] })
    .where('id', '=', id)
    .execute()
  await w.ready('on-a-state')
  const of = db.updateTable('workspaces').where('key', '=', 'on-a-state')
  await of.set({ state_layers: [layer] }).execute()
  const named = () => namedLayers(w.database.cell, w.cell_id, [layer])
  assert.deepEqual([...(await named())], [layer])
  await of.set({ state_layers: [] }).execute()
  assert.deepEqual([...(await named())], [layer])
  await of.set({ state_layers: [layer] }).execute()
  await db.updateTable('template_drafts').set({ discarded_at: w.clock.now() }).execute()
  assert.deepEqual([...(await named())], [layer])
  await of.set({ state_layers: [] }).execute()
  assert.deepEqual([...(await named())], [])
})

test('a layer that is requested just before its removal stays, and counts as named in the next pass', async () => {
  const layer = await made('asked for meanwhile')
  await look()
  w.advance(QUARANTINE_DAYS * DAY)
  {
    using _ = armFailpoint('layer_collect.L1', () => w.host.keepLayers([layer]))
    assert.equal((await look()).includes(layer), false)
  }
  await step(layer, w.clock.now())
  await look()
  assert.deepEqual([(await here()).includes(layer), (await unnamed()).includes(layer)], [true, false])
})

for (const point of ['layer_collect.L1', 'layer_collect.L2'] as const) {
  test(`a look that falls over at ${point} is made good by the next`, async () => {
    const layer = await made(point)
    await look()
    w.advance(QUARANTINE_DAYS * DAY)
    {
      using _ = armFailpoint(point, () => Promise.reject(new Error('it falls over')))
      await assert.rejects(look(), /it falls over/)
    }
    assert.equal((await here()).includes(layer), point === 'layer_collect.L1')
    await look()
    assert.deepEqual([(await here()).includes(layer), (await unnamed()).includes(layer)], [false, false])
  })
}

test('the layer collector knows every column of the schema whose name mentions layers', async () => {
  const tables = await w.database.superuser.introspection.getTables()
  const columns = tables.flatMap(({ name, columns: of }) => of.map((column) => `${name}.${column.name}`))
  assert.deepEqual(columns.filter((name) => /layers?$/.test(name)).sort(), [
    'layer_directories.layer', // keeps none: facts about a layer, which need not exist
    'layer_lists.layer',
    'template_build_steps.layer', // keeps its layer
    'template_draft_states.layers', // keeps its layers
    'template_versions.layers', // keeps its layers
    'unnamed_layers.layer',
    'workspaces.state_layers', // keeps its layers
  ])
})

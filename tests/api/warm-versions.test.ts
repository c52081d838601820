import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { templateSettingsProblems, type TemplateSettings } from '../../contract/schemas/template-settings.ts'
import { recipeSettings } from '../../service/core/templates/recipe-plan.ts'
import { seeder, SETTINGS, type World, world } from './support.ts'

const START = { start: [{ name: 'migrate', argv: ['/srv/migrate'] }] }
const WARM: TemplateSettings = { ...SETTINGS, ...START, inputs: {}, warm: true }

let w: World
let seeds: ReturnType<typeof seeder>
before(async () => {
  w = await world()
  seeds = seeder(w.database, w.clock, w.ids)
  await seeds.template(w.a.organization_id, 'hot', WARM)
  await seeds.template(w.a.organization_id, 'cold', { ...WARM, warm: false })
})
after(() => w[Symbol.asyncDispose]())

const warmOf = async (slug: string) => (await w.get(`/v1/templates/${slug}/versions/1`)).body.warm
const FAILED = { step: 'migrate', reason: 'startup_failed', exit_code: 1, output_tail: 'no such table' } as const

async function capture(state: 'wanted' | 'making' | 'ready' | 'failed'): Promise<void> {
  const { clock, ids, a } = w
  const cell_id = await seeds.cell(`one-${state}`)
  const db = w.database.superuser
  const now = clock.now()
  const { id: version_id } = await db
    .selectFrom('template_versions as v')
    .innerJoin('templates as t', 't.id', 'v.template_id')
    .select('v.id')
    .where('t.slug', '=', 'hot')
    .executeTakeFirstOrThrow()
  const times = { created_at: now, updated_at: now, used_at: now }
  const rest = { checkpoint_id: state === 'ready' ? ids.next() : null, error: state === 'failed' ? JSON.stringify(FAILED) : null }
  const owner = { organization_id: a.organization_id, project_id: a.project_id }
  await db
    .insertInto('template_captures')
    .values({ id: ids.next(), version_id, cell_id, ...owner, state, ...rest, ...times })
    .execute()
}

test('a warm version reports the best state of its computers, and other versions report none', async () => {
  assert.equal(await warmOf('cold'), undefined)
  assert.deepEqual(await warmOf('hot'), { state: 'none', error: null })
  await capture('failed')
  assert.deepEqual(await warmOf('hot'), { state: 'failed', error: FAILED })
  await capture('wanted')
  assert.deepEqual(await warmOf('hot'), { state: 'making', error: null })
  await capture('ready')
  assert.deepEqual(await warmOf('hot'), { state: 'ready', error: null })
})

test('a warm version needs something to start, and no required input in its start-up', () => {
  assert.deepEqual(templateSettingsProblems(WARM), [])
  assert.deepEqual(templateSettingsProblems({ ...WARM, start: [] }), ['warm needs start commands or services'])
  const inputs = { CITY: { required: true }, KEY: { kind: 'secret', required: true }, LATER: { required: true, startup: false } } as const
  assert.deepEqual(templateSettingsProblems({ ...WARM, inputs }), [
    'warm cannot be: inputs.CITY is required and not said to be of no use to the start-up',
    'warm cannot be: inputs.KEY is required and not said to be of no use to the start-up',
  ])
  assert.deepEqual(templateSettingsProblems({ ...WARM, inputs, warm: false }), [])
})

test("a recipe's version is warm only when the recipe says so", () => {
  assert.equal(recipeSettings(WARM, {}).warm, undefined)
  assert.equal(recipeSettings(SETTINGS, { ...START, warm: true }).warm, true)
})

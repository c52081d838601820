import { parseArgs } from 'node:util'
import { AdminError, type Command, type Context, organizationOf, show, slugOf, unlessTaken, words } from './command.ts'
import { ensureUnlimitedPlan } from './first-key.ts'
import { findPlan, insertOrganization, insertProject, listOrganizations, listProjects, updateOrganization } from './store.ts'

export const ORGANIZATION_COMMANDS: Record<string, Command> = {
  'organization create': { synopsis: 'SLUG [--name NAME] [--plan SLUG]', run: createOrganization },
  'organization list': { synopsis: '[--json]', run: showOrganizations },
  'organization plan': { synopsis: 'SLUG PLAN', run: setPlan },
  'project create': { synopsis: 'SLUG --organization SLUG [--name NAME]', run: createProject },
  'project list': { synopsis: '--organization SLUG [--json]', run: showProjects },
}

async function createOrganization(argv: string[], { db, output, clock, ids }: Context): Promise<void> {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: { name: { type: 'string' }, plan: { type: 'string' } },
  })
  const slug = slugOf(words(positionals, 'slug').slug, 'SLUG')
  const plan_id = values.plan === undefined ? await ensureUnlimitedPlan(db, { clock, ids }) : await planIdOf(db, values.plan)
  const id = ids.next()
  const row = { id, slug, name: values.name ?? slug, plan_id, allowance_exhausted: null, created_at: clock.now() }
  await unlessTaken(`Organization ${slug}`, () => insertOrganization(db, row))
  output.line(id)
}

async function showOrganizations(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  show(output, await listOrganizations(db), values.json)
}

async function setPlan(argv: string[], { db, output }: Context): Promise<void> {
  const { slug, plan } = words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals, 'slug', 'plan')
  const { id } = await organizationOf(db, slug)
  await updateOrganization(db, id, { plan_id: await planIdOf(db, plan) })
  output.note(`Organization ${slug} is on plan ${plan}`)
}

async function createProject(argv: string[], { db, output, clock, ids }: Context): Promise<void> {
  const options = { organization: { type: 'string' }, name: { type: 'string' } } as const
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options })
  const slug = slugOf(words(positionals, 'slug').slug, 'SLUG')
  const organization = await organizationOf(db, values.organization)
  const id = ids.next()
  const row = { id, organization_id: organization.id, slug, name: values.name ?? slug, created_at: clock.now() }
  await unlessTaken(`Project ${slug}`, () => insertProject(db, row))
  output.line(id)
}

async function showProjects(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { organization: { type: 'string' }, json: { type: 'boolean' } } })
  const { id } = await organizationOf(db, values.organization)
  show(output, await listProjects(db, id), values.json)
}

async function planIdOf(db: Context['db'], slug: string): Promise<string> {
  const plan = await findPlan(db, slug)
  if (plan === undefined) throw new AdminError(`There is no plan ${slug}`)
  return plan.id
}

import { parseArgs } from 'node:util'
import { recordTermsBefore } from '../core/money/billing/store.ts'
import {
  insertOrganization,
  insertProject,
  listOrganizations,
  listProjects,
  updateOrganization,
} from '../core/people/organizations/store.ts'
import { findPlan } from '../core/money/plans/store.ts'
import { AdminError, type Command, type Context, organizationOf, show, slugOf, subjectOf, unlessTaken, words } from './command.ts'
import { ensureUnlimitedPlan } from './first-key.ts'

export const ORGANIZATION_COMMANDS: Record<string, Command> = {
  'organization create': { synopsis: 'SLUG [--name NAME] [--plan SLUG]', run: createOrganization },
  'organization list': { synopsis: '[--json]', run: showOrganizations },
  'organization plan': { synopsis: 'SLUG PLAN', run: setPlan },
  'project create': { synopsis: 'SLUG --organization SLUG [--name NAME]', run: createProject },
  'project list': { synopsis: '--organization SLUG [--json]', run: showProjects },
}

async function createOrganization(argv: string[], { db, output, clock, ids, change }: Context): Promise<void> {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: { name: { type: 'string' }, plan: { type: 'string' } },
  })
  const slug = slugOf(words(positionals, 'slug').slug, 'SLUG')
  const plan = values.plan === undefined ? undefined : await planIdOf(db, values.plan)
  const id = ids.next()
  const row = { id, slug, name: values.name ?? slug, allowance_exhausted: null, created_at: clock.now() }
  const subject = subjectOf('organization', id, { organization_id: id }, { slug, plan: values.plan ?? 'unlimited' })
  await unlessTaken(`Organization ${slug}`, () =>
    change(
      'organizations.create',
      async (tx) => {
        await insertOrganization(tx, { ...row, plan_id: plan ?? (await ensureUnlimitedPlan(tx, { clock, ids })) })
      },
      subject,
    ),
  )
  output.line(id)
}

async function showOrganizations(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  show(output, await listOrganizations(db), values.json)
}

export async function setPlan(argv: string[], { db, output, clock, change }: Context): Promise<void> {
  const { slug, plan } = words(parseArgs({ args: argv, allowPositionals: true, options: {} }).positionals, 'slug', 'plan')
  const { id } = await organizationOf(db, slug)
  const plan_id = await planIdOf(db, plan)
  await change(
    'organizations.set_plan',
    async (tx) => {
      await recordTermsBefore(tx, { organization_id: id }, clock.now())
      await updateOrganization(tx, id, { plan_id })
    },
    subjectOf('organization', id, { organization_id: id }, { plan }),
  )
  output.note(`Organization ${slug} is on plan ${plan}`)
}

async function createProject(argv: string[], { db, output, clock, ids, change }: Context): Promise<void> {
  const options = { organization: { type: 'string' }, name: { type: 'string' } } as const
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options })
  const slug = slugOf(words(positionals, 'slug').slug, 'SLUG')
  const organization = await organizationOf(db, values.organization)
  const id = ids.next()
  const row = { id, organization_id: organization.id, slug, name: values.name ?? slug, created_at: clock.now() }
  const subject = subjectOf('project', id, { organization_id: organization.id, project_id: id }, { slug })
  await unlessTaken(`Project ${slug}`, () => change('projects.create', (tx) => insertProject(tx, row), subject))
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

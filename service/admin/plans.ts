import { parseArgs } from 'node:util'
import { APP_REASONS } from '../../contract/errors.ts'
import { AdminError, type Command, type Context, oneOf, show, slugOf, unlessTaken, UsageError, wholeNumber, words } from './command.ts'
import { findPlan, insertPlan, listPlans, type PlanLimits, updatePlan } from './store.ts'

/** `not_included` speaks of a feature, not of a plan as a whole. */
const REFUSALS = APP_REASONS.entitlement_required.filter((reason) => reason !== 'not_included')
const LIMITS_SYNOPSIS = `[--concurrent-workspaces N|none] [--cpu-millis N|none] [--memory-mib N|none] [--disk-gib N|none] [--refuse-starts ${REFUSALS.join('|')}|none]`

export const PLAN_COMMANDS: Record<string, Command> = {
  'plan create': { synopsis: `SLUG [--name NAME] ${LIMITS_SYNOPSIS}`, run: createPlan },
  'plan set': { synopsis: `SLUG ${LIMITS_SYNOPSIS}`, run: setPlan },
  'plan list': { synopsis: '[--json]', run: showPlans },
}

const text = { type: 'string' } as const
const LIMIT_OPTIONS = {
  'concurrent-workspaces': text,
  'cpu-millis': text,
  'memory-mib': text,
  'disk-gib': text,
  'refuse-starts': text,
} as const
type LimitValues = { [K in keyof typeof LIMIT_OPTIONS]?: string | undefined }

async function createPlan(argv: string[], { db, output, clock, ids }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: { name: text, ...LIMIT_OPTIONS } })
  const slug = slugOf(words(positionals, 'slug').slug, 'SLUG')
  const unlimited = { concurrent_workspaces: null, cpu_millis: null, memory_mib: null, disk_gib: null, refuses_starts: null }
  const id = ids.next()
  const row = { id, slug, name: values.name ?? slug, created_at: clock.now(), ...unlimited, ...limitsOf(values) }
  await unlessTaken(`Plan ${slug}`, () => insertPlan(db, row))
  output.line(id)
}

async function setPlan(argv: string[], { db, output }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: LIMIT_OPTIONS })
  const { slug } = words(positionals, 'slug')
  const plan = await findPlan(db, slug)
  if (plan === undefined) throw new AdminError(`There is no plan ${slug}`)
  const limits = limitsOf(values)
  if (Object.keys(limits).length === 0) throw new UsageError('Nothing is to be set')
  await updatePlan(db, plan.id, limits)
  output.note(`Plan ${slug} is changed`)
}

async function showPlans(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  show(output, await listPlans(db), values.json)
}

function limitsOf(values: LimitValues): PlanLimits {
  const limit = (name: keyof LimitValues, min: number) => {
    const value = values[name]
    return value === undefined || value === 'none' ? null : wholeNumber(value, `--${name}`, min)
  }
  const refusal = values['refuse-starts']
  return {
    ...(values['concurrent-workspaces'] === undefined ? {} : { concurrent_workspaces: limit('concurrent-workspaces', 0) }),
    ...(values['cpu-millis'] === undefined ? {} : { cpu_millis: limit('cpu-millis', 1) }),
    ...(values['memory-mib'] === undefined ? {} : { memory_mib: limit('memory-mib', 1) }),
    ...(values['disk-gib'] === undefined ? {} : { disk_gib: limit('disk-gib', 1) }),
    ...(refusal === undefined ? {} : { refuses_starts: refusal === 'none' ? null : oneOf(refusal, REFUSALS, '--refuse-starts') }),
  }
}

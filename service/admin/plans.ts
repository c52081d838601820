import { parseArgs } from 'node:util'
import { APP_REASONS } from '../../contract/errors.ts'
import type { EntitlementName } from '../../contract/schemas/plans.ts'
import { recordTermsBefore } from '../core/money/billing/store.ts'
import type { ChangeTx } from '../core/changes/mutate.ts'
import { LIMIT_NAMES } from '../core/money/admission/plan.ts'
import { VOLUME_LIMIT_NAMES } from '../core/workspaces/volumes/plan.ts'
import { findPlan, insertPlan, listPlans, type PlanLimits, updatePlan } from '../core/money/plans/store.ts'
import {
  AdminError,
  type Command,
  type Context,
  oneOf,
  show,
  slugOf,
  subjectOf,
  unlessTaken,
  UsageError,
  wholeNumber,
  words,
} from './command.ts'

/** Two reasons are omitted: `not_included` concerns a feature, and `limits_missing` follows from a missing limit. */
const REFUSALS = APP_REASONS.entitlement_required.filter((reason) => reason !== 'not_included' && reason !== 'limits_missing')
const VALUES = 'N|none|missing'
const ALLOWANCE_OPTIONS = { cpu_hours: 'cpu-hours', ram_gib_hours: 'ram-gib-hours' } as const
const PRICE_OPTIONS = { price_minor: 'price-minor', cpu_hour_minor: 'cpu-hour-minor', ram_gib_hour_minor: 'ram-gib-hour-minor' } as const
const PRICES_SYNOPSIS =
  '[--currency CCC|none] [--price-minor N|none] [--cpu-hour-minor N|none] [--ram-gib-hour-minor N|none] [--listed yes|no]'
const LIMITS_SYNOPSIS = `${PRICES_SYNOPSIS} [--cpu-hours N|none] [--ram-gib-hours N|none] [--concurrent-workspaces ${VALUES}] [--cpu-millis ${VALUES}] [--memory-mib ${VALUES}] [--disk-gib ${VALUES}] [--shared-volumes-max ${VALUES}] [--shared-volume-gib-max ${VALUES}] [--volume-attachments-per-workspace N|none] [--concurrent-template-builds N|none] [--refuse-starts ${REFUSALS.join('|')}|none]`

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
  'shared-volumes-max': text,
  'shared-volume-gib-max': text,
  'volume-attachments-per-workspace': text,
  'concurrent-template-builds': text,
  'refuse-starts': text,
  'cpu-hours': text,
  'ram-gib-hours': text,
  currency: text,
  'price-minor': text,
  'cpu-hour-minor': text,
  'ram-gib-hour-minor': text,
  listed: text,
} as const
type LimitValues = { [K in keyof typeof LIMIT_OPTIONS]?: string | undefined }

async function createPlan(argv: string[], { output, clock, ids, change }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: { name: text, ...LIMIT_OPTIONS } })
  const slug = slugOf(words(positionals, 'slug').slug, 'SLUG')
  const unlimited = { concurrent_workspaces: null, cpu_millis: null, memory_mib: null, disk_gib: null, refuses_starts: null }
  const id = ids.next()
  const limits = limitsOf(values, { missing_limits: [], missing_volume_limits: [] })
  refusePrices(limits, null)
  const row = { id, slug, name: values.name ?? slug, created_at: clock.now(), ...unlimited, ...limits }
  const subject = subjectOf('plan', id, {}, { slug, ...limits })
  await unlessTaken(`Plan ${slug}`, () => change('plans.create', (tx) => insertPlan(tx, row), subject))
  output.line(id)
}

async function setPlan(argv: string[], { db, output, clock, change }: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: LIMIT_OPTIONS })
  const { slug } = words(positionals, 'slug')
  const plan = await findPlan(db, slug)
  if (plan === undefined) throw new AdminError(`There is no plan ${slug}`)
  const limits = limitsOf(values, plan)
  refusePrices(limits, plan.currency)
  if (Object.keys(limits).length === 0) throw new UsageError('Nothing is to be set')
  const work = async (tx: ChangeTx) => {
    await recordTermsBefore(tx, { plan_id: plan.id }, clock.now())
    await updatePlan(tx, plan.id, limits)
  }
  await change('plans.update', work, subjectOf('plan', plan.id, {}, { slug, ...limits }))
  output.note(`Plan ${slug} is changed`)
}

function refusePrices(limits: PlanLimits, currency_before: string | null): void {
  const { currency = currency_before } = limits
  const priced = Object.keys(PRICE_OPTIONS).some((name) => (limits[name as keyof typeof PRICE_OPTIONS] ?? null) !== null)
  if (currency === null && priced) throw new UsageError('A price needs a --currency')
}

async function showPlans(argv: string[], { db, output }: Context): Promise<void> {
  const { values } = parseArgs({ args: argv, options: { json: { type: 'boolean' } } })
  show(output, await listPlans(db), values.json)
}

const ALL_LIMIT_NAMES = [
  ...LIMIT_NAMES,
  ...VOLUME_LIMIT_NAMES,
  'volume_attachments_per_workspace',
  'concurrent_template_builds',
] as const satisfies readonly EntitlementName[]
type LimitName = (typeof ALL_LIMIT_NAMES)[number]

const LEAST: Record<LimitName, [option: keyof LimitValues, min: number]> = {
  concurrent_workspaces: ['concurrent-workspaces', 0],
  cpu_millis: ['cpu-millis', 1],
  memory_mib: ['memory-mib', 1],
  disk_gib: ['disk-gib', 1],
  shared_volumes_max: ['shared-volumes-max', 0],
  shared_volume_gib_max: ['shared-volume-gib-max', 1],
  volume_attachments_per_workspace: ['volume-attachments-per-workspace', 0],
  concurrent_template_builds: ['concurrent-template-builds', 0],
}

type Missing = Record<'missing_limits' | 'missing_volume_limits', readonly string[]>

/** @param before names of the limits that the plan does not set yet. */
function limitsOf(values: LimitValues, before: Missing): PlanLimits {
  const refusal = values['refuse-starts']
  return {
    ...Object.fromEntries(numbersOf(values)),
    ...catalogOf(values),
    ...Object.fromEntries(ALL_LIMIT_NAMES.flatMap((name) => limitOf(values, name))),
    ...missingOf(values, 'missing_limits', LIMIT_NAMES, before),
    ...missingOf(values, 'missing_volume_limits', VOLUME_LIMIT_NAMES, before),
    ...(refusal === undefined ? {} : { refuses_starts: refusal === 'none' ? null : oneOf(refusal, REFUSALS, '--refuse-starts') }),
  }
}

function catalogOf({ currency, listed }: LimitValues): PlanLimits {
  if (currency !== undefined && currency !== 'none' && !/^[A-Z]{3}$/.test(currency))
    throw new UsageError('--currency is three capital letters, as in EUR')
  return {
    ...(currency === undefined ? {} : { currency: currency === 'none' ? null : currency }),
    ...(listed === undefined ? {} : { is_listed: oneOf(listed, ['yes', 'no'], '--listed') === 'yes' }),
  }
}

function limitOf(values: LimitValues, name: LimitName): [LimitName, number | null][] {
  const [option, min] = LEAST[name]
  const value = values[option]
  if (value === undefined) return []
  const may_be_missing = name !== 'volume_attachments_per_workspace' // without this limit the platform's applies
  return [[name, value === 'none' || (value === 'missing' && may_be_missing) ? null : wholeNumber(value, `--${option}`, min)]]
}

function missingOf(values: LimitValues, column: keyof Missing, names: readonly LimitName[], before: Missing): Partial<PlanLimits> {
  const valueOf = (name: LimitName) => values[LEAST[name][0]]
  if (names.every((name) => valueOf(name) === undefined)) return {}
  const is_missing = (name: LimitName) => (valueOf(name) === undefined ? before[column].includes(name) : valueOf(name) === 'missing')
  return { [column]: names.filter(is_missing) }
}

function numbersOf(values: LimitValues): [string, number | null][] {
  return Object.entries({ ...ALLOWANCE_OPTIONS, ...PRICE_OPTIONS }).flatMap(([name, option]): [string, number | null][] => {
    const value = values[option]
    return value === undefined ? [] : [[name, value === 'none' ? null : wholeNumber(value, `--${option}`, 0)]]
  })
}

import { parseArgs } from 'node:util'
import { APP_REASONS } from '../../contract/errors.ts'
import type { Allowance } from '../../contract/schemas/spend.ts'
import { ALLOWANCES, type AllowanceState } from '../core/money/admission/allowance.ts'
import { type OrganizationChange, updateOrganization } from '../core/people/organizations/store.ts'
import {
  type Command,
  type Context,
  momentOf,
  oneOf,
  organizationOf,
  required,
  subjectOf,
  UsageError,
  wholeNumber,
  words,
} from './command.ts'

/** Reasons about a plan are omitted, because they are set on the plan. */
const REFUSALS = [
  ...APP_REASONS.entitlement_required.filter((reason) => reason !== 'not_included' && reason !== 'limits_missing'),
  'none',
] as const
const EXHAUSTIONS = [...APP_REASONS.allowance_exhausted, 'none'] as const
const NAMES = Object.keys(ALLOWANCES) as Allowance[]

export const STANDING_COMMANDS: Record<string, Command> = {
  'organization starts': { synopsis: `SLUG ${REFUSALS.join('|')} [--grace-until TIME]`, run: setStarts },
  'organization allowance': {
    synopsis: `SLUG ${EXHAUSTIONS.join('|')} [--used ${NAMES.join('|')}=USED_SECONDS/INCLUDED_SECONDS]... [--resets-at TIME] [--spend-cap CENTS --charges CENTS --currency CODE]`,
    run: setAllowance,
  },
}

const text = { type: 'string' } as const

async function setStarts(argv: string[], context: Context): Promise<void> {
  const { values, positionals } = parseArgs({ args: argv, allowPositionals: true, options: { 'grace-until': text } })
  const { slug, reason } = words(positionals, 'slug', 'reason')
  const chosen = oneOf(reason, REFUSALS, 'REASON')
  const grace_until = values['grace-until'] === undefined ? null : momentOf(values['grace-until'], '--grace-until')
  if (grace_until !== null && chosen !== 'payment_past_due') throw new UsageError('--grace-until goes with payment_past_due')
  const change = { refuses_starts: chosen === 'none' ? null : chosen, grace_until }
  await setStanding(context, 'organizations.set_starts', slug, chosen, change)
  context.output.note(
    chosen === 'none' ? `Organization ${slug} may start workspaces` : `Starts of organization ${slug} are refused: ${chosen}`,
  )
}

async function setAllowance(argv: string[], context: Context): Promise<void> {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: { used: { ...text, multiple: true }, 'resets-at': text, 'spend-cap': text, charges: text, currency: text },
  })
  const { slug, reason } = words(positionals, 'slug', 'reason')
  const chosen = oneOf(reason, EXHAUSTIONS, 'REASON')
  const write = (change: OrganizationChange) => setStanding(context, 'organizations.set_allowance', slug, chosen, change)
  if (chosen === 'none') {
    await write({ allowance_exhausted: null, allowance: null })
    return context.output.note(`Organization ${slug} has allowance`)
  }
  const resets_at = values['resets-at'] === undefined ? nextMonth(context.clock.now()) : momentOf(values['resets-at'], '--resets-at')
  const allowance: AllowanceState = {
    exhausted: (values.used ?? ['cpu_hours=0/0']).map(usedOf),
    resets_at: resets_at.toISOString(),
    spend_cap: spendCapOf(values),
  }
  await write({ allowance_exhausted: chosen, allowance: JSON.stringify(allowance) })
  context.output.note(`Starts of organization ${slug} are refused, and what runs is suspended: ${chosen}`)
}

async function setStanding({ db, change }: Context, action: string, slug: string, reason: string, to: OrganizationChange): Promise<void> {
  const { id } = await organizationOf(db, slug)
  await change(action, (tx) => updateOrganization(tx, id, to), subjectOf('organization', id, { organization_id: id }, { reason }))
}

function usedOf(given: string): AllowanceState['exhausted'][number] {
  const [, name, used, included] = /^([a-z_]+)=(\d+)\/(\d+)$/.exec(given) ?? []
  const allowance = oneOf(required(name, '--used'), NAMES, '--used')
  const [used_meter_units, included_meter_units] = [wholeNumber(used ?? '', '--used', 0), wholeNumber(included ?? '', '--used', 0)]
  if (used_meter_units < included_meter_units) throw new UsageError(`${allowance} is not used up: ${given}`)
  return { allowance, used_meter_units, included_meter_units }
}

interface SpendCapValues {
  'spend-cap'?: string | undefined
  charges?: string | undefined
  currency?: string | undefined
}

function spendCapOf({ 'spend-cap': cap, charges, currency }: SpendCapValues): AllowanceState['spend_cap'] {
  if (cap === undefined && charges === undefined && currency === undefined) return null
  const cap_minor = wholeNumber(required(cap, '--spend-cap'), '--spend-cap', 0)
  const charges_minor = wholeNumber(required(charges, '--charges'), '--charges', 0)
  return { cap_minor, effective_cap_minor: cap_minor, charges_minor, currency: required(currency, '--currency') }
}

function nextMonth(now: Date): Date {
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1))
}

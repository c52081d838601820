import Type, { type Static } from 'typebox'
import { LIMITS } from '../limits.ts'
import { List, Nullable, PageQuery, strict, Timestamp, Uuid, Enum } from './common.ts'

export const ALLOWANCE_NAMES = ['cpu_hours', 'ram_gib_hours'] as const
export type Allowance = (typeof ALLOWANCE_NAMES)[number]
/** Meter units in an hour: usage is counted in seconds. */
export const METER_UNITS = 3600

/** See the specification (App, "Usage and spend", `spend_cap`). */
export const SPEND_CAP_STATES = ['unavailable', 'off', 'paused', 'within_allowance', 'accruing', 'warning', 'reached'] as const

const minor = Nullable(Type.Integer({ description: 'Smallest units of the currency' }))
export const SpendCapView = Type.Object(
  {
    state: Enum(SPEND_CAP_STATES),
    cap_minor: minor,
    effective_cap_minor: minor,
    max_cap_minor: minor,
    charges_minor: Type.Integer(),
    remaining_minor: minor,
    percent_of_cap: Nullable(Type.Number()),
    lines: Type.Array(
      Type.Object({
        allowance: Enum(ALLOWANCE_NAMES),
        units_over: Type.Number(),
        billed_units: Type.Integer(),
        rate_minor: Type.Integer(),
        amount_minor: Type.Integer(),
      }),
    ),
    projected_reached_at: Nullable(Timestamp()),
    currency: Nullable(Type.String()),
  },
  { title: 'SpendCap' },
)
export type SpendCapView = Static<typeof SpendCapView>

export const PeriodView = Type.Object({ starts_at: Timestamp(), ends_at: Timestamp('Its end, which is the beginning of the next') })

export const Spend = Type.Object(
  { organization_id: Uuid(), period: PeriodView, spend_cap: SpendCapView },
  { title: 'Spend', description: 'What is charged for use beyond the allowances in the billing period' },
)
export type Spend = Static<typeof Spend>

/** See the specification (App, "Usage and spend", spend policy). */
export const OVERAGE_STATES = ['unavailable', 'off', 'on', 'paused'] as const

const Rates = Type.Object(
  { cpu_hour_minor: minor, ram_gib_hour_minor: minor },
  { title: 'OverageRates', description: 'For each whole unit beyond the allowance; null: the plan has none' },
)
export const SpendPolicy = Type.Object(
  {
    organization_id: Uuid(),
    overage_available: Type.Boolean({ description: 'The plan has a price, and a rate for every allowance that ends' }),
    overage_enabled: Type.Boolean(),
    overage_state: Enum(OVERAGE_STATES, { description: 'paused: a payment of the plan is past due' }),
    spend_cap_minor: minor,
    spend_cap_min_minor: minor,
    spend_cap_max_minor: Nullable(Type.Integer({ description: 'The price of the plan' })),
    rates: Rates,
    currency: Nullable(Type.String()),
    alert_thresholds_percent: Type.Array(Type.Integer(), { description: 'Of the cap and of each allowance; `spend-alerts` changes them' }),
    version: Type.Integer({ minimum: 0, description: 'What to send as If-Match; 0: nobody has decided' }),
    updated_at: Nullable(Timestamp()),
  },
  { title: 'SpendPolicy' },
)
export type SpendPolicy = Static<typeof SpendPolicy>

export const SpendPolicyRequest = Type.Object(
  {
    overage_enabled: Type.Boolean({ description: 'Turning it off is always allowed' }),
    spend_cap_minor: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: LIMITS.spend.cap_minor_max,
        description: 'The most that a billing period may cost beyond the plan; absent: as before. Overage cannot be on without one',
      }),
    ),
  },
  { additionalProperties: false },
)

export const EstimateQuery = Type.Object({
  cpu_millis: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000, description: 'Of one more workspace, as used on average' })),
  memory_mib: Type.Optional(Type.Integer({ minimum: 0, maximum: 16_777_216, description: 'Of one more workspace while it runs' })),
  hours: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 744, description: 'For which it runs in the rest of the period; absent: to its end' }),
  ),
})

export const UsageEstimate = Type.Object(
  {
    organization_id: Uuid(),
    period: PeriodView,
    basis: Enum(['average_so_far'], { description: 'The rest of the period is taken to be as what is over of it' }),
    allowances: Type.Array(
      Type.Object({
        allowance: Enum(ALLOWANCE_NAMES),
        used_meter_units: Type.Integer(),
        estimated_meter_units: Type.Integer({ description: 'At the end of the period' }),
        workspace_meter_units: Type.Integer({ description: 'Of these, what the workspace that was asked about adds' }),
        included_meter_units: Nullable(Type.Integer({ description: 'With what credits add; null: without limit' })),
        granted_meter_units: Type.Integer({ description: 'Of these, what credits add' }),
      }),
    ),
    price_minor: minor,
    overage_minor: Type.Integer({ description: 'Beyond the price of the plan, as far as the cap lets it come; 0 where overage is off' }),
    total_minor: minor,
    currency: Nullable(Type.String()),
  },
  { title: 'UsageEstimate' },
)
export type UsageEstimate = Static<typeof UsageEstimate>

export const GRANT_STATES = ['active', 'used_up', 'expired', 'revoked'] as const
export const UsageGrant = Type.Object(
  {
    id: Uuid(),
    organization_id: Uuid(),
    allowance: Enum(ALLOWANCE_NAMES),
    state: Enum(GRANT_STATES),
    granted: Type.Number({ description: 'In units of the allowance' }),
    granted_meter_units: Type.Integer(),
    drawn_meter_units: Type.Integer({ description: 'Taken for what was used beyond what the plan includes, in all billing periods' }),
    remaining_meter_units: Type.Integer({ description: 'What can still be drawn; 0 of one whose time is over' }),
    note: Type.String(),
    created_at: Timestamp(),
    expires_at: Nullable(Timestamp('Nothing is drawn from then on; null: never')),
  },
  { title: 'UsageGrant', description: 'Credit beyond what the plan includes. The oldest is drawn first' },
)
export type UsageGrant = Static<typeof UsageGrant>
export const UsageGrantList = List(UsageGrant, 'UsageGrantList')
export const GrantsQuery = Type.Object(PageQuery)

export const ALERT_SUBJECTS = [...ALLOWANCE_NAMES, 'spend_cap'] as const
export type AlertSubject = (typeof ALERT_SUBJECTS)[number]

const Thresholds = Type.Array(Type.Integer({ minimum: 1, maximum: 100 }), {
  maxItems: LIMITS.spend.alert_thresholds_max,
  uniqueItems: true,
  description: 'Percent of the spend cap and of each allowance, of which people are told once in a billing period',
})
export const SpendAlerts = Type.Object(
  {
    organization_id: Uuid(),
    thresholds_percent: Thresholds,
    period: PeriodView,
    reached: Type.Array(
      Type.Object({
        subject: Enum(ALERT_SUBJECTS),
        threshold_percent: Type.Integer(),
        reached_at: Timestamp(),
        mailed_at: Nullable(Timestamp('When the mail was written that tells of it; null: soon')),
      }),
      { description: 'In this billing period, the last first' },
    ),
  },
  { title: 'SpendAlerts' },
)
export type SpendAlerts = Static<typeof SpendAlerts>
export const SpendAlertsRequest = Type.Object({ thresholds_percent: Thresholds }, { ...strict, title: 'SpendAlertsRequest' })

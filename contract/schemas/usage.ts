import Type, { type Static } from 'typebox'
import { APP_REASONS } from '../errors.ts'
import { Nullable, Timestamp, Uuid, Enum } from './common.ts'
import { ALLOWANCE_NAMES, PeriodView, SpendCapView } from './spend.ts'

/** See the specification (App, "Usage and spend"). Directions are those of the machine: egress is what it sends. */
export const METERS = [
  'cpu_seconds',
  'memory_gib_seconds',
  'storage_gib_seconds',
  'egress_bytes',
  'ingress_bytes',
  'volume_storage_gib_seconds',
] as const
export type Meter = (typeof METERS)[number]

export const GRANULARITIES = ['hour', 'day'] as const
export type Granularity = (typeof GRANULARITIES)[number]

const RangeQuery = {
  from: Type.Optional(Timestamp('The series begins with the hour or day of this; absent: the beginning of the billing period')),
  to: Type.Optional(Timestamp('The series ends with the hour or day of this, which is part of it; absent: now')),
  granularity: Type.Optional(Enum(GRANULARITIES, { description: 'hour: 31 days at most; day, the default: 400 days at most; in UTC' })),
  meter: Type.Optional(Enum(METERS, { description: 'Of this one alone' })),
}
export const WorkspaceUsageQuery = Type.Object(RangeQuery)
export const UsageQuery = Type.Object({
  ...RangeQuery,
  workspace_id: Type.Optional(Uuid('Of this one alone; not beside volume_id')),
  volume_id: Type.Optional(Uuid('Of this one alone; not beside workspace_id')),
  project_id: Type.Optional(Uuid('Of this project alone. An API key reads its own project, whether it names it or not')),
})

const Units = Type.Object(
  Object.fromEntries(METERS.map((meter) => [meter, Type.Integer({ minimum: 0 })])) as Record<Meter, Type.TInteger>,
  {
    title: 'UsageUnits',
    description: 'Whole units, rounded down for each workspace or volume and hour',
  },
)
export type Units = Static<typeof Units>

export const Measurement = Type.Object(
  {
    measured_through: Nullable(Timestamp('What was used until then is counted; null: nothing was ever measured')),
    final_through: Timestamp('Hours that ended by then are entries of the ledger; later ones may still grow'),
  },
  { title: 'UsageMeasurement' },
)

export const UsageSeries = Type.Object(
  {
    from: Timestamp('Beginning of the first hour or day'),
    to: Timestamp('Beginning of the last hour or day, which is part of the series'),
    granularity: Enum(GRANULARITIES),
    series: Type.Array(
      Type.Object({
        meter: Enum(METERS),
        points: Type.Array(Type.Object({ at: Timestamp('Beginning of the hour or day'), units: Type.Integer({ minimum: 0 }) }), {
          description: 'One for each hour or day, the oldest first; 0 where nothing was used',
        }),
        total: Type.Integer({ minimum: 0 }),
      }),
    ),
    totals: Type.Partial(Units, { description: 'The same totals by meter' }),
    measurement: Measurement,
  },
  { title: 'UsageSeries' },
)
export type UsageSeries = Static<typeof UsageSeries>

export const ALLOWANCE_STATES = ['unlimited', 'within', 'overage', 'exhausted'] as const

const AllowanceView = Type.Object(
  {
    allowance: Enum(ALLOWANCE_NAMES),
    meter: Enum(['cpu_seconds', 'memory_gib_seconds']),
    unit: Enum(['hours', 'gib_hours']),
    state: Enum(ALLOWANCE_STATES, { description: 'overage: used up, and what is beyond is charged' }),
    used: Type.Number({ description: 'In its unit' }),
    included: Nullable(Type.Number({ description: 'In its unit, with what credits add; null: without limit' })),
    used_meter_units: Type.Integer(),
    included_meter_units: Nullable(Type.Integer()),
    granted_meter_units: Type.Integer({ description: 'Of these, what credits add: drawn in the period, or still to be drawn' }),
  },
  { title: 'UsageAllowance' },
)

export const UsageSummary = Type.Object(
  {
    organization_id: Uuid(),
    period: PeriodView,
    usage: Units,
    allowances: Type.Array(AllowanceView),
    allowance_exhausted: Type.Boolean({ description: 'Opens, resumes and forks are refused with 402 allowance_exhausted' }),
    exhausted_reason: Nullable(Enum(APP_REASONS.allowance_exhausted)),
    spend_cap: SpendCapView,
    measurement: Measurement,
  },
  { title: 'UsageSummary' },
)
export type UsageSummary = Static<typeof UsageSummary>

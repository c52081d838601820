import Type, { type Static } from 'typebox'
import { APP_REASONS } from '../errors.ts'
import { PAYMENTS } from './billing.ts'
import { List, Nullable, Timestamp, Uuid, Enum } from './common.ts'
import { PeriodView } from './spend.ts'

export const ENTITLEMENTS = [
  'concurrent_workspaces',
  'cpu_millis',
  'memory_mib',
  'disk_gib',
  'cpu_hours',
  'ram_gib_hours',
  'shared_volumes_max',
  'shared_volume_gib_max',
  'volume_attachments_per_workspace',
  'concurrent_template_builds',
] as const
export type EntitlementName = (typeof ENTITLEMENTS)[number]

/** A limit, no limit, or a limit that the plan does not set. */
const Entitlement = Type.Object(
  {
    name: Enum(ENTITLEMENTS),
    kind: Enum(['value', 'unlimited', 'missing'], { description: 'missing: what it limits is refused until the plan says it' }),
    value: Nullable(Type.Integer({ description: 'Where there is a limit' })),
  },
  { title: 'Entitlement' },
)
export type Entitlement = Static<typeof Entitlement>

const minor = Nullable(Type.Integer({ description: 'Smallest units of the currency; null: it has none' }))
export const PlanView = Type.Object(
  {
    slug: Type.String(),
    name: Type.String(),
    currency: Nullable(Type.String()),
    price_minor: minor,
    overage_rates: Type.Object({ cpu_hour_minor: minor, ram_gib_hour_minor: minor }),
    entitlements: Type.Array(Entitlement),
  },
  { title: 'Plan' },
)
export type PlanView = Static<typeof PlanView>
export const PlanList = List(PlanView, 'PlanList')

export const Entitlements = Type.Object(
  { organization_id: Uuid(), plan: Type.String({ description: 'Its slug' }), entitlements: Type.Array(Entitlement) },
  { title: 'Entitlements' },
)

export const SUBSCRIPTION_STATES = ['active', 'past_due', 'unpaid', 'on_hold', 'none'] as const
export const Subscription = Type.Object(
  {
    organization_id: Uuid(),
    plan: PlanView,
    state: Enum(SUBSCRIPTION_STATES),
    refuses_starts: Nullable(Enum(APP_REASONS.entitlement_required, { description: 'Why nothing may be started; null: it may' })),
    grace_until: Nullable(Timestamp('Until when a payment that is past due may be made')),
    current_period: PeriodView,
    payment: Enum(PAYMENTS, {
      description: 'manual: an operator says what is paid; stripe: the plan was bought, and that service collects',
    }),
  },
  { title: 'Subscription' },
)
export type Subscription = Static<typeof Subscription>

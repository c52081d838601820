import { LIMITS } from '../../../../contract/limits.ts'
import type { usageOfWorkspace, usageSeries } from '../../../../contract/routes/app/usage.ts'
import { METERS, type Granularity, type Meter, type Units, type UsageSeries } from '../../../../contract/schemas/usage.ts'
import { periodOf } from '../../../core/money/usage/period.ts'
import { readUsage, type UsageRange, type UsageScope } from '../../../core/money/usage/store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { maySeeOrganization, notFound } from '../../calls/scope.ts'
import { projectOf } from '../../access/projects/project-of.ts'
import { findWorkspace } from '../../workspaces/find.ts'
import { measurementOf } from './measurement.ts'
import type { ReadDeps } from '../../calls/deps.ts'

const HOUR_MS = 3600_000
const DAY_MS = 24 * HOUR_MS
const STEP_MS = { hour: HOUR_MS, day: DAY_MS } as const
const DAYS_MAX = { hour: LIMITS.usage.hourly_days_max, day: LIMITS.usage.daily_days_max } as const

interface Asked {
  from?: string
  to?: string
  granularity?: Granularity
  meter?: Meter
}

export async function getUsageOfOrganization(call: Call<typeof usageSeries>, deps: ReadDeps): Promise<Reply> {
  const { who, query } = call
  const { organization_id } = call.params
  if (!maySeeOrganization(who, organization_id)) throw notFound('organization')
  const { workspace_id, volume_id } = query
  if (workspace_id !== undefined && volume_id !== undefined) throw refused('volume_id', 'may not stand beside workspace_id')
  const project_id = await projectAsked(deps, call, organization_id)
  const subject =
    workspace_id !== undefined
      ? { kind: 'workspace' as const, id: workspace_id }
      : volume_id !== undefined
        ? { kind: 'volume' as const, id: volume_id }
        : null
  return answer(deps, call.now, { organization_id, project_id, subject }, query)
}

export async function getUsageOfWorkspace(call: Call<typeof usageOfWorkspace>, deps: ReadDeps): Promise<Reply> {
  const { id, organization_id } = await findWorkspace(deps, call)
  return answer(deps, call.now, { organization_id, project_id: null, subject: { kind: 'workspace', id } }, call.query)
}

async function projectAsked(deps: ReadDeps, { who, query }: Call<typeof usageSeries>, organization_id: string): Promise<string | null> {
  if (query.project_id === undefined) return who.type === 'api_key' ? who.project_id : null
  const project = await projectOf(deps.reads, who, query.project_id)
  if (project.organization_id !== organization_id) throw notFound('project')
  return project.project_id
}

async function answer(deps: ReadDeps, now: Date, scope: UsageScope, asked: Asked): Promise<Reply> {
  const { granularity = 'day', meter } = asked
  const range = rangeOf(asked, granularity, now)
  const [rows, measurement] = await Promise.all([
    readUsage(deps.reads, scope, lastHourOf(range, granularity), granularity),
    measurementOf(deps, scope.organization_id, now),
  ])
  const body = { ...seriesOf(rows, range, granularity, meter === undefined ? METERS : [meter]), measurement }
  return { status: 200, body }
}

function rangeOf(asked: Asked, granularity: Granularity, now: Date): UsageRange {
  const to = asked.to === undefined ? now : new Date(asked.to)
  const from = asked.from === undefined ? periodOf(to).starts_at : new Date(asked.from)
  if (from > to) throw refused(asked.from === undefined ? 'to' : 'from', 'may not be after the end of the series')
  const days_max = DAYS_MAX[granularity]
  if (to.getTime() - from.getTime() > days_max * DAY_MS) throw refused('from', `a series by ${granularity} is of ${days_max} days at most`)
  const begin = (date: Date) => new Date(Math.floor(date.getTime() / STEP_MS[granularity]) * STEP_MS[granularity])
  return { from: begin(from), to: begin(to) }
}

function lastHourOf({ from, to }: UsageRange, granularity: Granularity): UsageRange {
  return { from, to: new Date(to.getTime() + STEP_MS[granularity] - HOUR_MS) }
}

function seriesOf(
  rows: readonly ({ at: Date } & Units)[],
  { from, to }: UsageRange,
  granularity: Granularity,
  meters: readonly Meter[],
): Omit<UsageSeries, 'measurement'> {
  const at = new Map(rows.map((row) => [row.at.getTime(), row]))
  const step_ms = STEP_MS[granularity]
  const times = Array.from({ length: (to.getTime() - from.getTime()) / step_ms + 1 }, (_, index) => from.getTime() + index * step_ms)
  const series = meters.map((meter) => {
    const points = times.map((time) => ({ at: new Date(time).toISOString(), units: at.get(time)?.[meter] ?? 0 }))
    return { meter, points, total: points.reduce((sum, { units }) => sum + units, 0) }
  })
  const totals = Object.fromEntries(series.map(({ meter, total }) => [meter, total]))
  return { from: from.toISOString(), to: to.toISOString(), granularity, series, totals }
}

function refused(path: string, message: string) {
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}

import { LIMITS } from '../../../contract/limits.ts'
import { createKeyedCounts, type KeyedCounts } from '../../lib/bounded.ts'
import { fail } from '../../lib/fail.ts'
import type { BudgetOwner } from '../host/buffer-budget.ts'

export interface CallPermits {
  take(owner: BudgetOwner, what: 'call' | 'stream'): Disposable
  streams(): number
}

export interface PlaceLimits {
  calls: number
  streams: number
  organization_streams: number
  all_streams: number
}

const LIMITS_OF_A_CELL: PlaceLimits = {
  calls: LIMITS.tool_call.calls_per_workspace_max,
  streams: LIMITS.stream.per_workspace_max,
  organization_streams: LIMITS.stream.per_organization_max,
  all_streams: LIMITS.stream.per_cell_max,
}

interface CallPermitsState {
  limits: PlaceLimits
  calls: KeyedCounts
  streams: KeyedCounts
  streams_of_organizations: KeyedCounts
}

export function createCallPermits(limits = LIMITS_OF_A_CELL): CallPermits {
  const [calls, streams, streams_of_organizations] = [createKeyedCounts(), createKeyedCounts(), createKeyedCounts()]
  const state: CallPermitsState = { limits, calls, streams, streams_of_organizations }
  return {
    take: (owner, what) => (what === 'call' ? takeCall(state, owner) : takeStream(state, owner)),
    streams: () => streams.total(),
  }
}

function takeCall({ limits, calls }: CallPermitsState, { id }: BudgetOwner): Disposable {
  if (calls.of(id) >= limits.calls) throw tooMany('call')
  return calls.take(id)
}

function takeStream({ limits, streams, streams_of_organizations }: CallPermitsState, { id, organization_id }: BudgetOwner): Disposable {
  if (streams.of(id) >= limits.streams) throw tooMany('stream')
  const left = limits.all_streams - streams.total()
  if (left === 0) throw tooManyStreams('Too many output streams are open')
  const held = streams_of_organizations.of(organization_id)
  // However many organizations have their maximum, the next organization finds some streams left.
  if (held >= limits.organization_streams || held >= left) throw tooManyStreams('The organization has too many output streams open')
  const permits = new DisposableStack()
  permits.use(streams.take(id))
  permits.use(streams_of_organizations.take(organization_id))
  return permits
}

function tooManyStreams(message: string) {
  return fail('service_unavailable', 'too_many_streams', message, { retry_after_seconds: 1 })
}

function tooMany(what: 'call' | 'stream') {
  return fail('rate_limited', null, `The workspace has too many ${what}s at once`, {
    retry_after_seconds: LIMITS.tool_call.resource_limit_retry_seconds,
  })
}

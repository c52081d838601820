import { LIMITS } from '../../../contract/limits.ts'
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

export function createCallPermits(limits = LIMITS_OF_A_CELL): CallPermits {
  const calls = new Counts()
  const streams = new Counts()
  let all_streams = 0
  const takeCall = ({ id }: BudgetOwner) => {
    if (calls.of(id) >= limits.calls) throw tooMany('call')
    return calls.add(id)
  }
  const takeStream = ({ id, organization_id }: BudgetOwner) => {
    if (streams.of(id) >= limits.streams) throw tooMany('stream')
    const left = limits.all_streams - all_streams
    if (left === 0) throw tooManyStreams('Too many output streams are open')
    const held = streams.of(organization_id)
    // However many organizations take their maximum, the next finds some.
    if (held >= limits.organization_streams || held >= left) throw tooManyStreams('The organization has too many output streams open')
    all_streams += 1
    const places = new DisposableStack()
    places.use(streams.add(id))
    places.use(streams.add(organization_id))
    places.defer(() => void (all_streams -= 1))
    return places
  }
  return {
    take: (owner, what) => (what === 'call' ? takeCall(owner) : takeStream(owner)),
    streams: () => all_streams,
  }
}

class Counts {
  readonly #counts = new Map<string, number>()

  of(name: string): number {
    return this.#counts.get(name) ?? 0
  }

  add(name: string): Disposable {
    this.#counts.set(name, this.of(name) + 1)
    let held = true
    return {
      [Symbol.dispose]: () => {
        if (!held) return
        held = false
        const left = this.of(name) - 1
        if (left === 0) this.#counts.delete(name)
        else this.#counts.set(name, left)
      },
    }
  }
}

function tooManyStreams(message: string) {
  return fail('service_unavailable', 'too_many_streams', message, { retry_after_seconds: 1 })
}

function tooMany(what: 'call' | 'stream') {
  return fail('rate_limited', null, `The workspace has too many ${what}s at once`, {
    retry_after_seconds: LIMITS.tool_call.resource_limit_retry_seconds,
  })
}

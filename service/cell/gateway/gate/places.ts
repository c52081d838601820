import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

/** Bounds how much is going on at once. */
export interface Places {
  /** Takes a place, or refuses. Disposing gives it back. */
  take(workspace_id: string, what: 'call' | 'stream'): Disposable
  streams(): number
}

/** One workspace must not be able to take the streams of all others. */
const STREAMS_PER_WORKSPACE_MAX = Math.floor(LIMITS.streams_per_cell_max / 5)

export interface PlaceLimits {
  calls: number
  streams: number
  all_streams: number
}

const LIMITS_OF_A_CELL: PlaceLimits = {
  calls: LIMITS.calls_per_workspace_max,
  streams: STREAMS_PER_WORKSPACE_MAX,
  all_streams: LIMITS.streams_per_cell_max,
}

export function createPlaces(limits = LIMITS_OF_A_CELL): Places {
  const taken = { call: new Map<string, number>(), stream: new Map<string, number>() }
  let streams = 0
  return {
    take(workspace_id, what) {
      const counts = taken[what]
      const count = counts.get(workspace_id) ?? 0
      if (count >= (what === 'call' ? limits.calls : limits.streams)) throw tooMany(what)
      if (what === 'stream' && streams >= limits.all_streams) {
        throw fail('service_unavailable', 'too_many_streams', 'Too many output streams are open', { retry_after_seconds: 1 })
      }
      counts.set(workspace_id, count + 1)
      if (what === 'stream') streams += 1
      let held = true
      return {
        [Symbol.dispose]() {
          if (!held) return
          held = false
          if (what === 'stream') streams -= 1
          const left = (counts.get(workspace_id) ?? 1) - 1
          if (left === 0) counts.delete(workspace_id)
          else counts.set(workspace_id, left)
        },
      }
    },
    streams: () => streams,
  }
}

function tooMany(what: 'call' | 'stream') {
  return fail('rate_limited', null, `The workspace has too many ${what}s at once`, {
    retry_after_seconds: LIMITS.resource_limit_retry_seconds,
  })
}

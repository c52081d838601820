import { LIMITS } from '../../contract/limits.ts'
import type { Call, Principal } from '../http/call.ts'
import { fail, type Failure } from '../lib/fail.ts'

/**
 * Bounds how many connections the changes of one tenant hold at once. Changes wait for the locks of rows and of a plan's limit, each
 * inside of a connection: without a bound a burst of one tenant has them all, and everybody waits with it.
 */
export interface Turns {
  /** Does the work when it is its turn, in the order of asking. */
  run<Result>(call: Pick<Call, 'who' | 'signal'>, work: () => Promise<Result>): Promise<Result>
}

export interface TurnLimits {
  /** Changes of one tenant at once. */
  at_once: number
  /** Of one tenant, beside them; more are refused. */
  waiting: number
  wait_ms: number
}

const RETRY_SECONDS = 1
/** One tenant's changes have at most this part of all connections: a burst of one leaves three quarters to the others. */
const SHARE = 4
const AT_ONCE_MIN = 2

export function turnLimits(connections_max: number): TurnLimits {
  const at_once = Math.max(AT_ONCE_MIN, Math.floor(connections_max / SHARE))
  return { at_once, waiting: LIMITS.caller.waiting_changes_per_tenant_max, wait_ms: LIMITS.caller.change_wait_seconds_max * 1000 }
}

interface Line {
  running: number
  /** In the order in which they came. */
  waiting: Set<() => void>
}

export function createTurns(limits: TurnLimits): Turns {
  const lines = new Map<string, Line>()
  return {
    async run(call, work) {
      const tenant = tenantOf(call.who)
      const line = lines.get(tenant) ?? { running: 0, waiting: new Set() }
      lines.set(tenant, line)
      if (line.running < limits.at_once) line.running += 1
      else await turn(line, limits, call)
      try {
        return await work()
      } finally {
        const [next] = line.waiting
        if (next === undefined) line.running -= 1
        else handOver(line, next)
        if (line.running === 0) lines.delete(tenant)
      }
    },
  }
}

/** Whoever is handed a place, or gives up waiting for one, leaves the line in the same step: no place is handed to nobody. */
function handOver({ waiting }: Line, next: () => void): void {
  waiting.delete(next)
  next()
}

/** Waits until somebody who is through hands its place over. */
async function turn({ waiting }: Line, limits: TurnLimits, { signal }: Pick<Call, 'signal'>): Promise<void> {
  if (waiting.size >= limits.waiting) throw tooMany()
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const leave = () => {
    if (waiting.delete(resolve)) reject(signal.aborted ? new Error('the caller has gone') : tooMany())
  }
  const late = setTimeout(leave, limits.wait_ms)
  signal.addEventListener('abort', leave)
  waiting.add(resolve)
  try {
    if (signal.aborted) leave()
    await promise
  } finally {
    clearTimeout(late)
    signal.removeEventListener('abort', leave)
  }
}

function tooMany(): Failure {
  return fail('rate_limited', null, 'Too many of your changes wait for one another', { retry_after_seconds: RETRY_SECONDS })
}

/** An API key is its organization's; a person may be in many, and is one tenant in all of them. */
export function tenantOf(who: Principal): string {
  return who.type === 'api_key' ? who.organization_id : who.id
}

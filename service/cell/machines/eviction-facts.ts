import { evictability, type EvictionFacts } from './eviction-rules.ts'
import type { EvictionContext } from './evictor.ts'
import { factsOf, hasMachine, latest } from './residency-clock.ts'
import type { FailureKind } from './save-failures.ts'

export interface MachineFacts extends EvictionFacts {
  ends: boolean
  fence: number
  /** No stream is in progress. Calls end soon, so they only delay an eviction. */
  has_calls_alone: boolean
}

const ENDS: ReadonlySet<string> = new Set(['suspend', 'delete'])

/**
 * @param going workspaces whose eviction is under way.
 * @param refused workspaces whose eviction failed or was undone, with the time of the retry.
 */
export function evictionFacts(
  context: EvictionContext,
  going: ReadonlyMap<string, unknown>,
  refused: ReadonlyMap<string, Date>,
): MachineFacts[] {
  const { table, parking, watched, room } = context
  const headroom_mib = room.capacity()?.headroom_mib ?? 0
  const moving = new Set([...parking.inTransition(), ...going.keys()])
  return table
    .known()
    .filter(hasMachine)
    .map((entry) => {
      const { id, organization_id, active_at, grants, machine, hold } = entry
      const facts = factsOf(context, watched, entry)
      const failed = parking.saveFailed(id)
      const saved_again_at = (kind: FailureKind) => (failed?.kind === kind ? failed.again_at.room : null)
      return {
        ...facts,
        id,
        organization_id,
        memory_mib: grants === null ? 0 : grants.memory_mib + headroom_mib,
        moving: moving.has(id),
        refused: machine.engine_refused === true,
        // The row's time survives a restart of this process.
        used_at: latest(active_at, table.activity.lastActive(id), parking.wokenAt(id)),
        not_before: lastOf(watched.get(id)?.ask_again_at, saved_again_at('machine')),
        retried_at: lastOf(refused.get(id), saved_again_at('passing')),
        ends: hold !== null && ENDS.has(hold.operation_kind ?? ''),
        fence: machine.fence,
        has_calls_alone: table.activity.seen(id)?.holds.every(({ what }) => what === 'call') ?? true,
      }
    })
}

export function mayLeave(facts: MachineFacts, now: Date): boolean {
  const used_for_now = facts.in_use && facts.has_calls_alone && !facts.moving
  return facts.ends || evictability(used_for_now ? { ...facts, in_use: false } : facts, now) !== 'no'
}

/** @returns the memory (MiB) of machines that are being woken: they may be evicted after their calls. */
export function comingMib({ table, parking, room }: EvictionContext): number {
  const headroom_mib = room.capacity()?.headroom_mib ?? 0
  const waiting = new Set(room.waiting().map(({ id }) => id))
  const coming = parking.inTransition().flatMap((id) => {
    const entry = table.get(id)
    return entry?.machine === null && entry.grants !== null && !waiting.has(id) ? [entry.grants] : []
  })
  return memoryOf(coming) + coming.length * headroom_mib
}

function lastOf(...dates: (Date | null | undefined)[]): Date | null {
  return dates.reduce<Date | null>((last, date) => (date && (last === null || date > last) ? date : last), null)
}

export function memoryOf(sizes: readonly { memory_mib: number }[]): number {
  return sizes.reduce((all, { memory_mib }) => all + memory_mib, 0)
}

import { LIMITS } from '../../../contract/limits.ts'
import { idleFrom, idleRule, type IdleFacts } from '../../core/workspaces/idle.ts'
import type { Db } from '../../db/database.ts'
import type { Ids } from '../../lib/ids.ts'
import { evictability, longestUnused, type EvictionFacts } from './eviction-rules.ts'
import { withUnwrittenActivity } from './idle-clock.ts'
import { beginBySystem, readComingDisk, readDiskHolders, type DiskHolder, type IdleRow } from './idle-store.ts'
import type { EvictionContext } from './evictor.ts'

export type DiskContext = Pick<EvictionContext, 'room' | 'clock' | 'table' | 'parking' | 'started_at' | 'log'> & {
  cell_id: string
  db: Db
  ids: Ids
}

const LOOK_AGAIN_MS = 1000

/**
 * Only a suspend releases a disk grant. Hibernated workspaces are suspended here; the caller must first hibernate the resident ones that
 * are returned.
 * Workspaces in `leaving` count as chosen, or others would be chosen instead.
 */
export function diskEvictor(
  context: DiskContext,
): (machines: readonly EvictionFacts[], leaving: ReadonlyMap<string, unknown>) => Promise<Set<string>> {
  const { room, clock, db, cell_id, log } = context
  let rests_until_ms = 0
  return async (machines, leaving) => {
    const is_asked = room.waiting().some(({ disk_gib }) => disk_gib > 0) && performance.now() >= rests_until_ms
    if (!is_asked || (await room.lacking_gib(Infinity)) === 0) return new Set()
    const now = clock.now()
    const quiet = new Set(machines.filter((one) => evictability(one, now) === 'now').map(({ id }) => id))
    const holders = (await readDiskHolders(db, cell_id, now)).filter(
      (row) => mayGive(context, row, now) && (row.residency === 'hibernated' || quiet.has(row.id) || leaving.has(row.id)),
    )
    const coming_gib = await readComingDisk(db, cell_id)
    const lacking_gib = (await room.lacking_gib(coming_gib + sum(holders))) - coming_gib
    const candidates = holders.map((row) => ({ ...row, used_at: idleFrom(withUnwrittenActivity(context, row)), size: row.disk_gib }))
    const chosen = longestUnused(candidates, candidates, lacking_gib, now)
    rests_until_ms = chosen.length === 0 ? performance.now() + LOOK_AGAIN_MS : 0
    for (const { id } of chosen.filter(({ residency }) => residency === 'hibernated')) {
      // Checked again on the locked row: a call or a keepalive may have arrived.
      const begun = await beginBySystem(context, id, (row) => (mayGive(context, row, now) ? suspension(context.ids) : null), now, 'delete')
      if (begun !== null) log.info({ workspace_id: id, operation_id: begun.id }, 'suspended: an operation waits for its disk')
    }
    return new Set(chosen.filter(({ residency }) => residency !== 'hibernated').map(({ id }) => id))
  }
}

function suspension(ids: Ids) {
  return { id: ids.next(), kind: 'suspend' as const, input: { reason: 'disk_wanted' } }
}

function mayGive(context: DiskContext, row: IdleRow, now: Date): boolean {
  const { table, parking } = context
  if (table.activity.inUse(row.id) || (parking.hintedUntil(row.id) ?? now) > now) return false
  return givesDisk(withUnwrittenActivity(context, row), now)
}

/**
 * Under the policies `never` and fixed seconds only the tenant decides when to suspend. Under `adaptive` the service decides, but not
 * before the shortest timeout that it learns.
 */
export function givesDisk(facts: IdleFacts, now: Date): boolean {
  const { basis } = idleRule(facts)
  if (basis !== 'default' && basis !== 'learned') return false
  if (facts.idle_retry_at !== null && facts.idle_retry_at > now) return false
  return now.getTime() - idleFrom(facts).getTime() >= LIMITS.idle.adaptive_seconds_min * 1000
}

function sum(holders: readonly DiskHolder[]): number {
  return holders.reduce((all, { disk_gib }) => all + disk_gib, 0)
}

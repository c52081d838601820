import { LIMITS } from '../../../contract/limits.ts'
import type { Db } from '../../db/database.ts'
import type { Listener } from '../../db/listen.ts'
import type { Clock } from '../../lib/clock.ts'
import { openPrincipalCache, type PrincipalCache } from './principal-cache.ts'
import { type Membership, readEndedSessions, readMemberships } from './store.ts'

export interface PersonStanding {
  memberships: readonly Membership[]
  /** Sessions that ended recently, whose tokens may not have expired. */
  ended_sessions: ReadonlySet<string>
}

export type People = PrincipalCache<PersonStanding>

/** Exceeds any token's life, even with clock skew between api and cell. */
const ENDED_MS = 2 * LIMITS.credential.tool_token_seconds * 1000

export function openPeople(db: Db, listener: Pick<Listener, 'on'>, clock: Pick<Clock, 'now'>): People {
  return openPrincipalCache(listener, 'berth_membership', async (id) => {
    const ended_since = new Date(clock.now().getTime() - ENDED_MS)
    const [memberships, ended] = await Promise.all([readMemberships(db, id), readEndedSessions(db, id, ended_since)])
    return { memberships, ended_sessions: new Set(ended.map((session) => session.id)) }
  })
}

export function hasTools(memberships: readonly Membership[], organization_id: string): boolean {
  return memberships.some((membership) => membership.organization_id === organization_id && membership.role !== 'billing')
}

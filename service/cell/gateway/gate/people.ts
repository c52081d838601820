import type { Db } from '../../../db/database.ts'
import type { Listener } from '../../../db/listen.ts'
import { openStandings, type Standings } from './standings.ts'
import { type Membership, readMemberships } from './store.ts'

/** The people whose tokens were seen, with their memberships by now. */
export type People = Standings<readonly Membership[]>

export function openPeople(db: Db, listener: Pick<Listener, 'on'>): People {
  return openStandings(listener, 'berth_membership', (id) => readMemberships(db, id))
}

/** Whether a person's tokens are good in this organization: billing has no tools. Pure. */
export function hasTools(memberships: readonly Membership[], organization_id: string): boolean {
  return memberships.some((membership) => membership.organization_id === organization_id && membership.role !== 'billing')
}

import { grantableBy, type Role } from '../../../../contract/access.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { countOwners, roleIn } from '../../../core/people/members/store.ts'
import type { Call } from '../../../http/call.ts'
import { refuseStale } from '../../../http/access.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { personOf } from '../auth/people.ts'
import { notFound } from '../../calls/scope.ts'

/** Reads the role again, because it may have changed since authentication. */
export async function ownRole(tx: ChangeTx, call: Pick<Call, 'who'>, organization_id: string): Promise<Role> {
  const role = await roleIn(tx, organization_id, personOf(call.who).id)
  if (role === null) throw notFound('organization')
  return role
}

/** A person who makes another an owner must have entered the password recently. */
export function refuseGrant(call: Call, own: Role, roles: readonly Role[], given: Role | null): void {
  const beyond = roles.find((role) => !grantableBy(own).includes(role))
  if (beyond !== undefined) throw fail('forbidden', null, `As ${own} you may not give or take the role ${beyond}`)
  const { session } = personOf(call.who)
  if (given === 'owner') refuseStale({ step_up: true }, session.stepped_up_at, call.now)
}

/** Requires the organization's lock: concurrent calls could remove the last owners. */
export async function refuseLastOwner(tx: ChangeTx, organization_id: string, role: Role): Promise<void> {
  if (role === 'owner' && (await countOwners(tx, organization_id)) < 2) throw lastOwner()
}

function lastOwner(): Failure {
  return fail('conflict', 'last_owner', 'They are the last owner: make another one first')
}

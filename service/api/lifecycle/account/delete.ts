import type { accountDelete } from '../../../../contract/routes/app/deletions.ts'
import { auditEvent } from '../../../core/changes/audit.ts'
import { insertAuditEvent } from '../../../core/changes/store.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { insertMail } from '../../../core/people/mail/store.ts'
import { deleteMemberships, erasePerson, lockOwned } from '../../../core/people/deletion-store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { deleteExportsOf } from '../../records/exports/store.ts'
import { emailOf, personOf, personSubject } from '../../access/auth/people.ts'
import { byCaller } from '../../calls/by-caller.ts'
import { changing } from '../../calls/idempotency/change.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { AccessDeps } from '../../access/deps.ts'

export async function deleteAccount(call: Call<typeof accountDelete>, deps: ChangeDeps & Pick<AccessDeps, 'people'>): Promise<Reply> {
  const { id, email } = personOf(call.who)
  if (emailOf(call.body.confirm_email, 'confirm_email') !== email) {
    throw fail('validation_failed', null, 'confirm_email is not the address of the account', { details: { field: 'confirm_email' } })
  }
  const work = async (tx: ChangeTx) => {
    await refuseSoleOwner(tx, id)
    const by = byCaller(deps, call)
    // A record per organization: the account's own record belongs to no organization.
    for (const organization_id of await deleteMemberships(tx, id)) {
      await insertAuditEvent(tx, auditEvent(by, 'members.delete', { ...personSubject(id, { account: 'deleted' }), organization_id }))
    }
    await deleteExportsOf(tx, id)
    await erasePerson(tx, id, email, call.now)
    await insertMail(tx, { ids: deps.ids, now: call.now }, { kind: 'account_deleted', email })
  }
  await changing(deps, call, work, () => personSubject(id))
  deps.people.wakeMailSender()
  return { status: 204 }
}

/** A sole owner is refused, because no other member could manage the organization (App, "Reasons"). */
async function refuseSoleOwner(tx: ChangeTx, person_id: string): Promise<void> {
  const organization_ids = (await lockOwned(tx, person_id)).filter(({ owners }) => owners < 2).map(({ id }) => id)
  if (organization_ids.length === 0) return
  throw fail('conflict', 'organization_ownership', 'You are the only owner of an organization: make another owner, or delete it first', {
    details: { organization_ids },
  })
}

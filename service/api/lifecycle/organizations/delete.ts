import type { organizationsDelete } from '../../../../contract/routes/app/deletions.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { lockOrganization } from '../../../core/people/members/store.ts'
import { insertOperation } from '../../../core/workspaces/operations/store.ts'
import { beginDeletion } from '../../../core/people/organizations/deletion-store.ts'
import { readerOf } from '../../../db/reader.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { personOf } from '../../access/auth/people.ts'
import { notFound } from '../../calls/scope.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { ownRole } from '../../access/members/rules.ts'
import { readOperation } from '../../workspaces/operations/store.ts'
import { operationView } from '../../workspaces/operations/view.ts'
import { hasPendingCheckout, lockAccount } from '../../money/payment/store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'
import type { LifecycleDeps } from '../deps.ts'

export async function deleteOrganization(
  call: Call<typeof organizationsDelete>,
  deps: ChangeDeps & Pick<LifecycleDeps, 'enders'>,
): Promise<Reply> {
  const { organization_id } = call.params
  const { id: person_id } = personOf(call.who)
  const work = async (tx: ChangeTx) => {
    const row = await lockOrganization(tx, organization_id)
    if (row === undefined) throw notFound('organization')
    // Checked under the lock: a concurrent delete by another owner removes the role.
    if ((await ownRole(tx, call, organization_id)) !== 'owner') throw fail('forbidden', null, 'Only an owner may delete an organization')
    if (call.body.confirm_slug !== row.slug) {
      throw fail('validation_failed', null, 'confirm_slug is not the slug of the organization', { details: { field: 'confirm_slug' } })
    }
    await refuseBuyers(tx, organization_id, call.now)
    await beginDeletion(tx, organization_id, call.now)
    const id = deps.ids.next()
    const subject = { kind: 'organization', id: organization_id } as const
    const about = { subject, organization_id, project_id: null, workspace_id: null, cell_id: null }
    const input = { organization_id, requested_by: person_id, request_id: call.request_id }
    await insertOperation(tx, { id, kind: 'delete', ...about, input, now: call.now }, null)
    return { slug: row.slug, operation: await readOperation(readerOf(tx), id) }
  }
  const subject = { kind: 'organization', id: organization_id, organization_id, project_id: null } as const
  const { operation } = await changing(deps, call, work, ({ slug }) => ({ ...subject, details: { slug } }))
  if (operation === null) throw new Error('an operation is not there that was just written')
  deps.enders.poke()
  return { status: 202, body: operationView(operation) }
}

/** Refused, because no person could end the subscription or checkout after the deletion. */
async function refuseBuyers(tx: ChangeTx, organization_id: string, now: Date): Promise<void> {
  if (((await lockAccount(tx, { organization_id }))?.subscription_id ?? null) !== null)
    throw fail('conflict', 'subscription_active', 'This organization has bought a plan: end that subscription first')
  if (await hasPendingCheckout(tx, organization_id, now))
    throw fail('conflict', 'checkout_pending', 'Somebody is about to buy a plan for this organization: wait until that page is closed')
}

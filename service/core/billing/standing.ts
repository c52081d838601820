import type { By } from '../changes/audit.ts'
import { mutate, type ChangeTx } from '../changes/mutate.ts'
import type { Db } from '../../db/database.ts'
import { paymentStanding } from './payment.ts'
import { findToJudge, firstDue, writePaymentStanding } from './store.ts'

const ORGANIZATIONS_MAX = 10_000

/** Writes what an organization's open invoices come to. @returns whether something else is true now. */
export async function judgePayment(tx: ChangeTx, organization_id: string, now: Date): Promise<boolean> {
  return writePaymentStanding(tx, organization_id, paymentStanding(await firstDue(tx, organization_id), now))
}

/** Invoices become due and grace ends without anybody asking. @returns the organizations of which something else is true now. */
export async function judgePayments(db: Db, by: By): Promise<string[]> {
  const changed: string[] = []
  for (const organization_id of await findToJudge(db, by.now, ORGANIZATIONS_MAX)) {
    const subject = { kind: 'organization', id: organization_id, organization_id, project_id: null } as const
    const is_other = await mutate(
      db,
      by,
      'billing.judge',
      (tx) => judgePayment(tx, organization_id, by.now),
      (is_other) => (is_other ? subject : null),
    )
    if (is_other) changed.push(organization_id)
  }
  return changed
}

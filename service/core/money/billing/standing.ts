import type { ChangeOrigin } from '../../changes/audit.ts'
import { mutate, type ChangeTx } from '../../changes/mutate.ts'
import type { Db } from '../../../db/database.ts'
import { paymentStanding } from './payment.ts'
import { findStandingChecks, firstDue, type StandingCheck, writePaymentStanding } from './store.ts'

const BATCH = 1000

export async function judgePayment(tx: ChangeTx, organization_id: string, now: Date): Promise<boolean> {
  return writePaymentStanding(tx, organization_id, paymentStanding(await firstDue(tx, organization_id), now))
}

export async function judgePayments(db: Db, by: ChangeOrigin): Promise<string[]> {
  const changed: string[] = []
  for (let after: string | null = null; ;) {
    const found: StandingCheck[] = await findStandingChecks(db, by.now, after, BATCH)
    for (const { id } of found.filter((one) => standingDiffers(one, by.now))) if (await judgeOne(db, by, id)) changed.push(id)
    after = found.at(-1)?.id ?? null
    if (found.length < BATCH) return changed
  }
}

/** Checked before a transaction begins, because most organizations need no change. */
function standingDiffers({ due_at, payment_refuses_starts, payment_grace_until }: StandingCheck, now: Date): boolean {
  const found = paymentStanding(due_at, now)
  return found.payment_refuses_starts !== payment_refuses_starts || found.payment_grace_until?.getTime() !== payment_grace_until?.getTime()
}

function judgeOne(db: Db, by: ChangeOrigin, organization_id: string): Promise<boolean> {
  const subject = { kind: 'organization', id: organization_id, organization_id, project_id: null } as const
  return mutate(
    db,
    by,
    'billing.judge',
    (tx) => judgePayment(tx, organization_id, by.now),
    (is_other) => (is_other ? subject : null),
  )
}

import { createHash } from 'node:crypto'
import { LIMITS } from '../../../../contract/limits.ts'
import type { feedbackCreate } from '../../../../contract/routes/app/feedback.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import { redact } from '../../../core/people/feedback/redact.ts'
import { insertFeedback } from '../../../core/people/feedback/store.ts'
import type { Call, Principal, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { secondsLeft } from '../../../lib/window.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { findFirst, lockSenders, receivedAt } from './store.ts'
import type { ChangeDeps } from '../../calls/deps.ts'

const { per_10_minutes, per_day, per_organization_and_day } = LIMITS.feedback
const DAY_SECONDS = 24 * 3600

export async function createFeedback(call: Call<typeof feedbackCreate>, deps: ChangeDeps): Promise<Reply> {
  const { now, who, body } = call
  const { organization_id, project_id } = ownerOf(who)
  const message = redact(body.message)
  const context = Object.fromEntries(Object.entries(body.context ?? {}).map(([name, value]) => [name, redact(value)]))
  const message_sha256 = createHash('sha256').update(message).digest()
  const id = deps.ids.next()
  const work = async (tx: ChangeTx) => {
    await refuseFlood(tx, who.id, organization_id, now)
    const first = await findFirst(tx, who.id, message_sha256, secondsBefore(now, DAY_SECONDS))
    const of = { id, received_at: now, organization_id, principal_type: who.type, principal_id: who.id }
    const said = { category: body.category ?? ('other' as const), message_sha256, context: JSON.stringify(context) }
    // A repeated message is counted, but its text is not stored again.
    await insertFeedback(tx, { ...of, ...said, message: first ? null : message, duplicate_of: first?.id ?? null })
    return { id: first?.id ?? id, received_at: (first?.received_at ?? now).toISOString(), duplicate: first !== undefined }
  }
  const answer = await changing(deps, call, work, () => ({ kind: 'feedback', id, organization_id, project_id }))
  return { status: 201, body: answer }
}

/** A person's feedback belongs to the oldest organization: ids sort by creation time. */
function ownerOf(who: Principal): { organization_id: string | null; project_id: string | null } {
  if (who.type === 'api_key') return who
  const [organization_id = null] = who.memberships.map((membership) => membership.organization_id).sort()
  return { organization_id, project_id: null }
}

/** See the specification (App, "Limits", "Feedback"). */
async function refuseFlood(tx: ChangeTx, principal_id: string, organization_id: string | null, now: Date): Promise<void> {
  await lockSenders(tx, [principal_id, ...(organization_id === null ? [] : [organization_id])])
  await refuseBeyond(tx, { principal_id }, 600, per_10_minutes, now)
  await refuseBeyond(tx, { principal_id }, DAY_SECONDS, per_day, now)
  if (organization_id !== null) await refuseBeyond(tx, { organization_id }, DAY_SECONDS, per_organization_and_day, now)
}

async function refuseBeyond(
  tx: ChangeTx,
  of: Parameters<typeof receivedAt>[1],
  seconds: number,
  count_max: number,
  now: Date,
): Promise<void> {
  const oldest = await receivedAt(tx, of, secondsBefore(now, seconds), count_max)
  if (oldest === null) return
  const retry_after_seconds = secondsLeft(oldest, seconds, now)
  throw fail('rate_limited', null, 'You have sent as much feedback as is taken for a while: thank you', { retry_after_seconds })
}

function secondsBefore(now: Date, seconds: number): Date {
  return new Date(now.getTime() - seconds * 1000)
}

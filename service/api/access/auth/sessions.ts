import type { authLogout, authLogoutAll, authSession, authSessions, authSessionsDelete } from '../../../../contract/routes/app/auth.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import type { CurrentSession, PersonSession } from '../../../../contract/schemas/auth.ts'
import { revokeSession, revokeSessions } from '../../../core/people/sessions-store.ts'
import type { Call, Reply } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { changing } from '../../calls/idempotency/change.ts'
import { pageAnswer, pageOf } from '../../calls/pages.ts'
import { readPerson } from '../principals/store.ts'
import { personOf, personSubject, sessionEnd, sessionSubject } from './people.ts'
import { notFound } from '../../calls/scope.ts'
import { listSessions, readSession, type SessionRow } from './store.ts'
import type { ChangeDeps, PageDeps, ReadDeps } from '../../calls/deps.ts'

const DAY_MS = 24 * 3600 * 1000

export async function getSession(call: Call<typeof authSession>, deps: ReadDeps): Promise<Reply> {
  const { id, session } = personOf(call.who)
  const [row, user] = await Promise.all([readSession(deps.reads, session.id), readPerson(deps.reads, id)])
  if (row === null || user === null) throw fail('unauthenticated', null, 'The session has ended')
  const until = row.stepped_up_at === null ? null : new Date(row.stepped_up_at.getTime() + LIMITS.credential.step_up_seconds * 1000)
  const body: CurrentSession = {
    ...view(row),
    email_verified: user.email_verified,
    stepped_up_until: until !== null && until > call.now && !row.mfa_pending ? until.toISOString() : null,
    user: row.mfa_pending ? null : user,
  }
  return { status: 200, body }
}

export async function listOwnSessions(call: Call<typeof authSessions>, deps: PageDeps): Promise<Reply> {
  const { id, session } = personOf(call.who)
  const page = pageOf(deps.cursor_keys, call)
  const ago = (days: number) => new Date(call.now.getTime() - days * DAY_MS)
  const { session_idle_days, session_days_max } = LIMITS.sign_in
  const since = { now: call.now, idle_since: ago(session_idle_days), made_since: ago(session_days_max) }
  const rows = await listSessions(deps.reads, id, since, page)
  const each = (row: SessionRow): PersonSession => ({ ...view(row), is_current: row.id === session.id })
  return { status: 200, body: pageAnswer(deps.cursor_keys, call, rows, each) }
}

export async function endSession(call: Call<typeof authSessionsDelete>, deps: ChangeDeps): Promise<Reply> {
  const { id } = personOf(call.who)
  const { session_id } = call.params
  const ended = await changing(
    deps,
    call,
    (tx) => revokeSession(tx, id, session_id, call.now),
    (was_there) => (was_there === true ? sessionSubject(session_id) : null),
  )
  if (ended === null) throw notFound('session')
  return { status: 204 }
}

export async function logOut(call: Call<typeof authLogout>, deps: ChangeDeps): Promise<Reply> {
  const { id, session } = personOf(call.who)
  await changing(
    deps,
    call,
    (tx) => revokeSession(tx, id, session.id, call.now),
    () => sessionSubject(session.id),
  )
  return { status: 204 }
}

export async function logOutEverywhere(call: Call<typeof authLogoutAll>, deps: ChangeDeps): Promise<Reply> {
  const { id } = personOf(call.who)
  await changing(
    deps,
    call,
    (tx) => revokeSessions(tx, id, call.now),
    (sessions) => personSubject(id, { sessions }),
  )
  return { status: 204 }
}

function view(row: SessionRow): Omit<PersonSession, 'is_current'> {
  const { id, device, address, created_at, last_used_at, mfa_pending } = row
  return {
    id,
    device,
    address,
    created_at: created_at.toISOString(),
    last_used_at: last_used_at.toISOString(),
    session_expires_at: sessionEnd(row, last_used_at).toISOString(),
    mfa_required: mfa_pending,
  }
}

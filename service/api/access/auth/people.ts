import type { PersonSecrets } from '../../../core/people/person-secrets.ts'
import { normalizeEmail } from '../../../core/people/email.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { mutate, type ChangeTx } from '../../../core/changes/mutate.ts'
import type { ChangeOrigin, AuditTarget } from '../../../core/changes/audit.ts'
import type { Call, PersonPrincipal, Principal } from '../../../http/call.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import { personOfToken } from './store.ts'
import type { Passwords } from './passwords.ts'
import type { SignInLimiter } from './sign-in-bounds.ts'
import type { CallDeps, ReadDeps } from '../../calls/deps.ts'

export interface PeopleDeps {
  passwords: Passwords
  secrets: PersonSecrets
  bounds: SignInLimiter
  /** Who may register without an invitation. A list: addresses of these domains. */
  registration: 'open' | 'invitation' | readonly string[]
  wakeMailSender(): void
}

const DAY_MS = 24 * 3600 * 1000

/** Changes data as this person, for routes that need no session. */
export function changingAs<Result>(
  deps: Pick<CallDeps, 'db' | 'ids'>,
  call: Pick<Call, 'now' | 'request_id' | 'address' | 'route'>,
  person_id: string,
  work: (tx: ChangeTx) => Promise<Result>,
  subject: (result: Result) => AuditTarget | null,
): Promise<Result> {
  const { now, request_id, address } = call
  const actor = { kind: 'user', id: person_id } as const
  const by: ChangeOrigin = { actor, ids: deps.ids, now, request_id, source_address: address === '' ? null : address }
  return mutate(deps.db, by, call.route.id, work, subject)
}

export function personSubject(id: string, details: NonNullable<AuditTarget['details']> = {}): AuditTarget {
  return { kind: 'person', id, organization_id: null, project_id: null, details }
}

export function sessionSubject(id: string): AuditTarget {
  return { kind: 'session', id, organization_id: null, project_id: null }
}

/** The access of session routes admits only people, so a key is a programming error. */
export function personOf(who: Principal): PersonPrincipal {
  if (who.type !== 'user') throw new Error('a route of sessions was called by a key')
  return who
}

export function emailOf(text: string, path = 'email'): string {
  const email = normalizeEmail(text)
  if (email !== null) return email
  throw fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message: 'is no email address' }] } })
}

/** The answer does not reveal which credential was wrong. */
export function invalidCredentials(): Failure {
  return fail('invalid_credentials', null, 'What you sign in with is not right')
}

export function tokenInvalid(): Failure {
  return fail('token_invalid', null, 'The link is not valid, was used, or is too old')
}

export function sessionEnd({ created_at, expires_at }: { created_at: Date; expires_at: Date }, last_used_at: Date): Date {
  const { session_idle_days, session_days_max } = LIMITS.sign_in
  const ends = [last_used_at.getTime() + session_idle_days * DAY_MS, created_at.getTime() + session_days_max * DAY_MS, expires_at.getTime()]
  return new Date(Math.min(...ends))
}

export function sessionDaysFrom(now: Date): Date {
  return new Date(now.getTime() + LIMITS.sign_in.session_days_max * DAY_MS)
}

/** The work consumes the token, which proves that it is valid, and returns the token's owner. */
export async function changingByToken(
  deps: ReadDeps & Pick<CallDeps, 'db' | 'ids'>,
  call: Pick<Call, 'now' | 'request_id' | 'address' | 'route'>,
  token_sha256: Buffer,
  work: (tx: ChangeTx) => Promise<string>,
): Promise<void> {
  const person_id = await personOfToken(deps.reads, token_sha256)
  if (person_id === null) throw tokenInvalid()
  await changingAs(deps, call, person_id, work, (id) => personSubject(id))
}

import { hash } from 'node:crypto'
import { LIMITS } from '../../../../contract/limits.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Db } from '../../../db/database.ts'
import type { Arrival, PersonPrincipal, Principal } from '../../../http/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { fail } from '../../../lib/fail.ts'
import { noteKeyUse } from '../api-keys/store.ts'
import { bearerOf } from './bearer.ts'
import { findApiKey, findPersonSession, touchPersonSession } from './store.ts'
import type { AuthFailureLimiter } from './guesses.ts'
import type { ApiKeyCache } from './verdicts.ts'

const API_KEY = /^sfk_([A-Za-z0-9]{1,64})_([A-Za-z0-9_-]{16,200})$/
const PERSON_SESSION = /^sfu_[A-Za-z0-9_-]{43}$/
const DAY_MS = 24 * 3600 * 1000
/** A session's last use is written once an hour: the 30-day limit needs no more precision. */
const TOUCH_MS = 3600 * 1000
/** A key's last use is written every 5 minutes: finding unused keys needs no more precision. */
const USE_MS = 5 * 60 * 1000

export interface AuthenticateDeps {
  db: Db
  reads: Reader
  clock: Clock
  verdicts: ApiKeyCache
  guesses: AuthFailureLimiter
}

/** See the specification (App, "Authentication"). All invalid credentials get the same answer. */
export async function authenticate(deps: AuthenticateDeps, arrival: Arrival): Promise<Principal> {
  const token = bearerOf(arrival.headers)
  const principal = token === undefined ? null : await principalOf(deps, token, arrival)
  if (principal === null) throw fail('unauthenticated', null, 'A valid API key or session token is required as a Bearer credential')
  return principal
}

async function principalOf(deps: AuthenticateDeps, token: string, arrival: Arrival): Promise<Principal | null> {
  const [, key_id, secret] = API_KEY.exec(token) ?? []
  if (key_id !== undefined && secret !== undefined) return apiKey(deps, token, key_id, secret, arrival)
  return PERSON_SESSION.test(token) ? person(deps, token, arrival) : null
}

async function apiKey(
  deps: AuthenticateDeps,
  token: string,
  key_id: string,
  secret: string,
  { address, now }: Arrival,
): Promise<Principal | null> {
  const digest = hash('sha256', token)
  const monotonic_ms = deps.clock.monotonic_ms()
  const known = deps.verdicts.find(digest, now, monotonic_ms)
  if (known) return known
  const read = async () => {
    const row = await findApiKey(deps.reads, key_id, hash('sha256', secret, 'buffer'), now)
    if (!row) return null
    const { expires_at, last_used_at, ...key } = row
    if (now.getTime() - (last_used_at?.getTime() ?? 0) > USE_MS) await noteKeyUse(deps.db, key.id, now)
    return { principal: { type: 'api_key' as const, ...key }, expires_at }
  }
  return deps.verdicts.readThrough(digest, () => deps.guesses.lookUp(address, digest, read), monotonic_ms)
}

async function person(deps: AuthenticateDeps, token: string, { address, now, route }: Arrival): Promise<PersonPrincipal | null> {
  const { session_idle_days, session_days_max } = LIMITS.sign_in
  const before = (days: number) => new Date(now.getTime() - days * DAY_MS)
  const digest = hash('sha256', token)
  const row = await deps.guesses.lookUp(address, digest, () =>
    findPersonSession(deps.reads, Buffer.from(digest, 'hex'), now, before(session_idle_days), before(session_days_max)),
  )
  if (!row) return null
  if (!(route.access.kind === 'principal' && route.access.unfinished === true)) refuseUnfinished(row)
  if (now.getTime() - row.last_used_at.getTime() > TOUCH_MS) await touchPersonSession(deps.db, row.session_id, now)
  const session = { id: row.session_id, stepped_up_at: row.stepped_up_at }
  return { type: 'user', id: row.id, email: row.email, memberships: row.memberships, session }
}

function refuseUnfinished({ mfa_pending, email_verified }: { mfa_pending: boolean; email_verified: boolean }): void {
  if (mfa_pending) throw fail('mfa_required', null, 'The session waits for its second factor')
  if (!email_verified) throw fail('email_unverified', null, 'The email address is not verified yet')
}

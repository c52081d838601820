import { newSessionToken } from '../../../core/keys/new-credentials.ts'
import { digestOf } from '../../../core/people/person-secrets.ts'
import { rotateSession, type SessionChange } from '../../../core/people/sessions-store.ts'
import type { ChangeTx } from '../../../core/changes/mutate.ts'
import type { Call } from '../../../http/call.ts'
import { fail } from '../../../lib/fail.ts'
import { bearerOf } from './bearer.ts'
import { personOf, sessionEnd } from './people.ts'

export interface Rotated {
  session_token: string
  session_expires_at: string
}

/** See the specification (App, "Authentication" 2). A concurrent call with the old token is refused. */
export async function rotate(tx: ChangeTx, call: Call, change: SessionChange): Promise<Rotated> {
  const { session } = personOf(call.who)
  const { token, token_sha256 } = newSessionToken()
  const from = digestOf(bearerOf(call.headers) ?? '')
  const row = await rotateSession(tx, { id: session.id, from, to: token_sha256, now: call.now, change })
  if (row === undefined) throw fail('unauthenticated', null, 'The session has ended')
  return { session_token: token, session_expires_at: sessionEnd(row, call.now).toISOString() }
}

import type { ReasonOf } from '../../../contract/errors.ts'
import { ATTACH_PROTOCOL, BEARER_PROTOCOL_PREFIX } from '../../../contract/schemas/cell/attach.ts'
import type { Arrival, ToolCaller } from '../../http/call.ts'
import { fail, type Failure } from '../../lib/fail.ts'
import { isUuid } from '../../lib/ids.ts'
import type { MachineTable, WorkspaceEntry } from '../machines/table.ts'
import { type ApiKeys, keyRefusal } from './api-keys.ts'
import type { VerificationKeys } from './keys.ts'
import { hasTools, type People } from './people.ts'
import { createSignatures, type Signatures } from './signatures.ts'
import { verifyToken } from './token.ts'
import { createTokenCache } from './token-cache.ts'

export interface ToolTokenDeps {
  table: MachineTable
  keys: VerificationKeys
  api_keys: ApiKeys
  people: People
  issuer: string
  audience: string
  signatures?: Signatures
}

const BEARER = /^Bearer ([^\s]+)$/i

export function toolTokens(deps: ToolTokenDeps): (arrival: Arrival) => Promise<ToolCaller> {
  const verdicts = createTokenCache()
  const signatures = deps.signatures ?? createSignatures()
  const { table } = deps

  const callerOf = async (token: string, { now, address }: Arrival) => {
    const known = verdicts.get(token)
    if (known !== undefined) return known
    const expected = { issuer: deps.issuer, audience: deps.audience, now }
    const verified = await verifyToken(token, deps.keys, expected, (check) => signatures.check(token, address, check))
    if (verified !== null) verdicts.set(token, verified)
    return verified
  }
  return async (arrival) => {
    const caller = await callerOf(bearerOf(arrival), arrival)
    if (caller === null || caller.expires_at_seconds * 1000 <= arrival.now.getTime()) throw invalidToken()
    const entry = table.get(caller.workspace_id) ?? (await table.load(caller.workspace_id))
    await refuseRevoked(deps, caller, entry, arrival.now)
    refuseForbidden(arrival, caller)
    return caller
  }
}

export function epochRefusal({ ownership_epoch }: ToolCaller, entry: WorkspaceEntry): Failure | null {
  if (ownership_epoch === entry.ownership_epoch) return null
  // The token is forged, because this cell never issued one for a future epoch.
  if (ownership_epoch > entry.ownership_epoch) return invalidToken()
  return fail('stale_epoch', null, 'The workspace was suspended, resumed or moved since the token was made: get a new one')
}

function bearerOf(arrival: Arrival): string {
  const token = BEARER.exec(arrival.headers.authorization ?? '')?.[1] ?? protocolToken(arrival)
  if (token === undefined) throw fail('unauthenticated', null, 'The call needs a tool token: Authorization: Bearer <token>')
  return token
}

/** Reads the token from a subprotocol, because browsers cannot set headers of a WebSocket. */
function protocolToken({ route, headers }: Arrival): string | undefined {
  if (route.websocket === undefined) return undefined
  const offered = headers['sec-websocket-protocol']?.split(',').map((name) => name.trim()) ?? []
  if (!offered.includes(ATTACH_PROTOCOL)) return undefined
  return offered.find((name) => name.startsWith(BEARER_PROTOCOL_PREFIX))?.slice(BEARER_PROTOCOL_PREFIX.length)
}

async function refuseRevoked(
  { api_keys, people }: ToolTokenDeps,
  caller: ToolCaller,
  entry: WorkspaceEntry | undefined,
  now: Date,
): Promise<void> {
  if (entry !== undefined && entry.deleted_at !== null) throw revoked('revoked_workspace', 'The workspace was deleted')
  const watermark = entry?.tokens_revoked_before ?? null
  if (watermark !== null && caller.issued_at_seconds * 1000 <= watermark.getTime()) {
    throw revoked('revoked_watermark', 'The tokens of the workspace were revoked')
  }
  if (caller.principal_type === 'user') {
    const standing = await people.of(caller.principal_id)
    if (entry !== undefined && !hasTools(standing.memberships, entry.organization_id)) throw invalidToken()
    if (caller.person_session_id !== null && standing.ended_sessions.has(caller.person_session_id)) throw invalidToken()
    return
  }
  const standing = api_keys.of(caller.principal_id)
  const reason = keyRefusal(standing instanceof Promise ? await standing : standing, caller, now)
  if (reason !== null) throw revoked(reason, 'The API key behind the token was revoked or lost a tool')
}

function refuseForbidden(arrival: Arrival, caller: ToolCaller): void {
  const asked = arrival.params['workspace_id'] ?? ''
  // An id has only one canonical spelling; any other is refused.
  if (asked !== caller.workspace_id || !spelledPlainly(arrival, asked)) {
    if (!isUuid(asked.toLowerCase()))
      throw fail('bad_request', null, 'The workspace id is not a uuid', { details: { field: 'workspace_id' } })
    throw fail('forbidden', null, 'The token is for another workspace')
  }
}

function spelledPlainly(arrival: Arrival, id: string): boolean {
  return arrival.url.startsWith(`/v1/workspaces/${id}/`)
}

function invalidToken(): Failure {
  return fail('unauthenticated', null, 'The tool token is not valid')
}

function revoked(reason: ReasonOf<'unauthenticated'>, message: string): Failure {
  return fail('unauthenticated', reason, message)
}

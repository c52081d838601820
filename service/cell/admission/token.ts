import { compactVerify, type CryptoKey } from 'jose'
import { LIMITS } from '../../../contract/limits.ts'
import { TOOL_TOKEN_TYPE, ToolTokenClaims } from '../../../contract/tool-token.ts'
import type { ToolCaller } from '../../http/call.ts'
import { validatorOf } from '../../http/checks.ts'
import { isUuid } from '../../lib/ids.ts'
import type { VerificationKeys } from './keys.ts'

const TOKEN_CHARACTERS_MAX = 4096
const TOKEN = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{86}$/
const KID = /^[A-Za-z0-9_-]{1,100}$/
/** Api and cell may be two computers, whose clocks differ by up to this. */
const CLOCK_SKEW_SECONDS = 5

const isClaims = validatorOf(ToolTokenClaims)

/**
 * Verifies a token (App, "Tool token"), but not its revocation. The costly signature comes last.
 * @returns null without a reason, because the caller must not learn it
 */
export async function verifyToken(
  token: string,
  keys: VerificationKeys,
  expected: { issuer: string; audience: string; now: Date },
  inTurn: (check: () => Promise<boolean>) => Promise<boolean>,
): Promise<ToolCaller | null> {
  if (token.length > TOKEN_CHARACTERS_MAX || !TOKEN.test(token)) return null
  const [header = '', payload = ''] = token.split('.')
  const kid = kidOf(header)
  const claims = kid === null ? null : parseJson(Buffer.from(payload, 'base64url'))
  const caller = isClaims(claims) ? callerOf(claims as ToolTokenClaims, expected) : null
  if (kid === null || caller === null) return null
  const key = await keys.find(kid)
  return key !== undefined && (await inTurn(() => isSigned(token, key))) ? caller : null
}

function isSigned(token: string, key: CryptoKey): Promise<boolean> {
  return compactVerify(token, key, { algorithms: ['ES256'] }).then(
    () => true,
    () => false, // the signature is invalid
  )
}

/** Allows only these fields: a token must not bring its own key, or an address to fetch one. */
function kidOf(encoded: string): string | null {
  const header = parseJson(Buffer.from(encoded, 'base64url'))
  if (header === null || typeof header !== 'object' || Object.keys(header).length !== 3) return null
  const { alg, typ, kid } = header as Record<string, unknown>
  return alg === 'ES256' && typ === TOOL_TOKEN_TYPE && typeof kid === 'string' && KID.test(kid) ? kid : null
}

function callerOf(claims: ToolTokenClaims, expected: { issuer: string; audience: string; now: Date }): ToolCaller | null {
  const life_seconds = claims.exp - claims.iat
  if (claims.iss !== expected.issuer || claims.aud !== expected.audience) return null
  if (life_seconds <= 0 || life_seconds > LIMITS.credential.tool_token_seconds) return null
  if (claims.iat > expected.now.getTime() / 1000 + CLOCK_SKEW_SECONDS) return null
  if (claims.exp * 1000 <= expected.now.getTime()) return null
  return {
    type: 'tool_token',
    principal_type: claims.pty,
    principal_id: claims.sub,
    workspace_id: claims.ws,
    ownership_epoch: claims.epoch,
    agent_session_id: claims.sid,
    person_session_id: claims.pty === 'user' ? personSessionOf(claims.jti) : null,
    tools: claims.tools,
    issued_at_seconds: claims.iat,
    expires_at_seconds: claims.exp,
  }
}

function personSessionOf(jti: string): string | null {
  const [session_id = '', id] = jti.split('.')
  return id !== undefined && isUuid(session_id) ? session_id : null
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return null // not JSON, so Berth did not make this token
  }
}

import type { IncomingHttpHeaders } from 'node:http'
import { LIMITS } from '../../contract/limits.ts'
import { fail } from '../lib/fail.ts'

const REQUEST_ID = new RegExp(`^[A-Za-z0-9._-]{${LIMITS.request_id.characters_min},${LIMITS.request_id.characters_max}}$`)
const IDEMPOTENCY_KEY = new RegExp(`^[\\x21-\\x7e]{1,${LIMITS.idempotency.key_characters_max}}$`)
const WAIT = /(?:^|,)\s*wait\s*=\s*"?(\d+)"?\s*(?:;[^,]*)?(?=,|$)/i

/** Uses the client's request id if it is valid, else creates one. No other value of the client is sent back. */
export function requestId(headers: IncomingHttpHeaders, fresh: () => string): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : fresh()
}

/** Reads `Prefer: wait=<seconds>` (RFC 7240), capped at the limit; 0 if it is missing or invalid. */
export function waitSeconds(headers: IncomingHttpHeaders): number {
  const prefer = headers['prefer']
  const found = prefer === undefined ? null : WAIT.exec(String(prefer))
  return found?.[1] === undefined ? 0 : Math.min(Number.parseInt(found[1], 10), LIMITS.wait.seconds_max)
}

export function idempotencyKey(headers: IncomingHttpHeaders): string | null {
  const given = headers['idempotency-key']
  if (given === undefined) return null
  if (typeof given === 'string' && IDEMPOTENCY_KEY.test(given)) return given
  const message = `must be 1-${LIMITS.idempotency.key_characters_max} visible ASCII characters`
  throw fail('validation_failed', null, 'The Idempotency-Key header is not valid', {
    details: { field: 'Idempotency-Key', issues: [{ path: 'Idempotency-Key', message }] },
  })
}

const FINGERPRINT_BYTES = 32

export interface Fingerprints {
  sign(bytes: number, text: string): Buffer
  verifies(signed: Buffer, bytes: number, text: string): boolean
}

/** Fingerprint of method, path, query and body. It is keyed, so that a stored fingerprint reveals nothing about the request. */
export function fingerprintOf(keys: Fingerprints, method: string, url: string, body: unknown) {
  const text = `${method} ${url}\n${canonical(body ?? null)}`
  return {
    fingerprint: keys.sign(FINGERPRINT_BYTES, text),
    matches: (kept: Buffer) => keys.verifies(kept, FINGERPRINT_BYTES, text),
  }
}

/**
 * The same text for equal JSON values, whatever the order of their keys. Recursion is safe, because a body has at most `json_levels_max`
 * levels.
 */
function canonical(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([name, inner]) => `${JSON.stringify(name)}:${canonical(inner)}`).join(',')}}`
}

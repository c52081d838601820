import type { IncomingHttpHeaders } from 'node:http'
import { LIMITS } from '../../contract/limits.ts'
import { fail } from '../lib/fail.ts'

const REQUEST_ID = new RegExp(`^[A-Za-z0-9._-]{${LIMITS.request_id.characters_min},${LIMITS.request_id.characters_max}}$`)
const IDEMPOTENCY_KEY = new RegExp(`^[\\x21-\\x7e]{1,${LIMITS.idempotency.key_characters_max}}$`)
const WAIT = /(?:^|,)\s*wait\s*=\s*"?(\d+)"?\s*(?:;[^,]*)?(?=,|$)/i

/** The client's request id when it is one, else a fresh one: nothing else of a client's is ever reflected. */
export function requestId(headers: IncomingHttpHeaders, fresh: () => string): string {
  const given = headers['x-request-id']
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : fresh()
}

/** `Prefer: wait=<seconds>` (RFC 7240): more than the limit counts as the limit, nonsense as no wish. */
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

/** Signs what a request was, and says later whether another is the same. */
export interface Fingerprints {
  sign(bytes: number, text: string): Buffer
  verifies(signed: Buffer, bytes: number, text: string): boolean
}

/** Which request a key was used for: method, path, query and what the body means, keyed so that a stored digest tells nothing. */
export function fingerprintOf(keys: Fingerprints, method: string, url: string, body: unknown) {
  const text = `${method} ${url}\n${canonical(body ?? null)}`
  return {
    fingerprint: keys.sign(FINGERPRINT_BYTES, text),
    matches: (kept: Buffer) => keys.verifies(kept, FINGERPRINT_BYTES, text),
  }
}

/** The same text for the same JSON value, whatever the order of its keys. It recurses: a body is at most `json_levels_max` deep. */
function canonical(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([name, inner]) => `${JSON.stringify(name)}:${canonical(inner)}`).join(',')}}`
}

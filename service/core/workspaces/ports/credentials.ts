import { createHash, createHmac, randomBytes } from 'node:crypto'
import type { CredentialKind } from '../../../../contract/internal/ports.ts'

const PREFIXES: Record<CredentialKind, string> = { token: 'sfp_', link: 'sfl_', cookie: 'sfc_', callback: 'sfcb_' }
const SECRET_BYTES = 32
const SECRET = /^[A-Za-z0-9_-]{43}$/
const COOKIE_OF_LINK = 'the cookie of a signed link'

/** Creates a credential of a port (docs/decisions/port-credentials.md). */
export function newCredential(kind: Exclude<CredentialKind, 'cookie'>): string {
  return `${PREFIXES[kind]}${randomBytes(SECRET_BYTES).toString('base64url')}`
}

/** The link cannot be derived from its cookie. */
export function cookieOf(link: string): string {
  return `${PREFIXES.cookie}${createHmac('sha256', link).update(COOKIE_OF_LINK).digest('base64url')}`
}

export function digestOf(kind: CredentialKind, value: string): Buffer | null {
  const prefix = PREFIXES[kind]
  return value.startsWith(prefix) && SECRET.test(value.slice(prefix.length)) ? createHash('sha256').update(value).digest() : null
}

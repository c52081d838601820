import type { Arrival } from '../../http/call.ts'

const BEARER = /^Bearer +(\S+) *$/i

/** Returns the bearer credential of a request. */
export function bearerOf({ authorization }: Arrival['headers']): string | undefined {
  return BEARER.exec(authorization ?? '')?.[1]
}

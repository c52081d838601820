import type { Arrival } from '../../http/call.ts'

const BEARER = /^Bearer +(\S+) *$/i

/** The credential that a request comes with. */
export function bearerOf({ authorization }: Arrival['headers']): string | undefined {
  return BEARER.exec(authorization ?? '')?.[1]
}

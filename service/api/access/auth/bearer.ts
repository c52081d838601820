import type { Arrival } from '../../../http/call.ts'

const BEARER = /^Bearer +(\S+) *$/i

export function bearerOf({ authorization }: Arrival['headers']): string | undefined {
  return BEARER.exec(authorization ?? '')?.[1]
}

import { LIMITS } from '../../../../contract/limits.ts'
import { AGENT_PORT, RESERVED_PATH, type Ttl } from '../../../../contract/schemas/ports.ts'
import { fail, type Failure } from '../../../lib/fail.ts'

/** No visitor may reach the agent's port. */
export function refuseOwnPort(port: number): void {
  if (port === AGENT_PORT) throw invalid('port', 'is a port of the service itself')
}

export function secondsOf({ ttl_seconds, ttlSeconds, ttl }: Ttl, otherwise: number): number {
  const given = [ttl_seconds, ttlSeconds, ttl].filter((value) => value !== undefined)
  const [seconds = otherwise] = given
  if (given.some((value) => value !== seconds)) throw invalid('ttl_seconds', 'is given by several names that do not agree')
  return seconds
}

const NOT_PRINTED = /[^\x21-\x5b\x5d-\x7e]/gu // includes the backslash, which browsers read as a slash

/**
 * Path for a `Location` header, which must remain on the port's own host.
 * @throws if a browser could read another host in the path, or if the path is reserved.
 */
export function linkPath(path: string): string {
  const fails = (message: string) =>
    fail('validation_failed', 'invalid_path', message, { details: { field: 'path', issues: [{ path: 'path', message }] } })
  if (/[\u0000-\u001f\u007f-\u009f]/.test(path)) throw fails('The path has control characters')
  if (!/^\/(?![/\\])/.test(path)) throw fails('The path must begin with one slash, and not with two')
  const encoded = path.replaceAll(NOT_PRINTED, encodeURIComponent)
  const { pathname } = new URL(encoded, 'http://port.invalid')
  if (pathname === RESERVED_PATH || pathname.startsWith(`${RESERVED_PATH}/`)) {
    throw fails(`Paths below ${RESERVED_PATH}/ are not the app's`)
  }
  if (encoded.length > LIMITS.port.path_characters_max) throw fails('The path is too long when it is encoded')
  return encoded
}

function invalid(path: string, message: string): Failure {
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}

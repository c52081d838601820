import { LIMITS } from '../../../../contract/limits.ts'
import { fail, type Failure } from '../../../lib/fail.ts'

/** Decodes strictly, because a lenient decoder would turn invalid UTF-8 into another name. The agent resolves `..` in the guest. */
export function pathOf(url: string): string {
  const query = url.includes('?') ? url.slice(url.indexOf('?') + 1) : ''
  const given = query.split('&').filter((pair) => pair === 'path' || pair.startsWith('path='))
  const [encoded] = given
  if (encoded === undefined || given.length > 1) throw malformed('must be given once')
  return checkPath('path', decode(encoded.slice('path='.length)))
}

function decode(encoded: string): string {
  if (/%(?![0-9A-Fa-f]{2})/.test(encoded)) throw malformed('is not percent-encoded')
  try {
    return decodeURIComponent(encoded.replaceAll('+', ' '))
  } catch {
    throw invalidPath('path', 'must be UTF-8')
  }
}

export function checkPath(field: string, path: string): string {
  if (!path.startsWith('/')) throw invalidPath(field, 'must be absolute')
  if (path.includes('\0')) throw invalidPath(field, 'must not contain NUL')
  if (!path.isWellFormed()) throw invalidPath(field, 'must be Unicode text')
  if (Buffer.byteLength(path) > LIMITS.file.path_bytes_max)
    throw invalidPath(field, `must have at most ${LIMITS.file.path_bytes_max} bytes`)
  return path
}

export function checkMode(mode: string | undefined): { mode?: string } {
  if (mode === undefined) return {}
  if (/^[0-7]{3,4}$/.test(mode)) return { mode }
  throw fail('validation_failed', null, 'The mode is not valid', {
    details: { issues: [{ path: 'mode', message: 'must be 3 or 4 octal digits' }] },
  })
}

function malformed(message: string): Failure {
  return fail('bad_request', null, 'The query is not valid', { details: { issues: [{ path: 'path', message }] } })
}

function invalidPath(field: string, message: string): Failure {
  return fail('validation_failed', 'invalid_path', 'The path is not valid', { details: { field, issues: [{ path: field, message }] } })
}

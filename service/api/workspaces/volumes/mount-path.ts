import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

/** No volume is mounted at or below these paths: they belong to the machine, or are in its memory. */
const RESERVED = ['/proc', '/sys', '/dev', '/run', '/tmp', '/volumes', '/boot']
/** No volume is mounted exactly at these paths: a machine needs their content. */
const NEEDED = [
  '/',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/usr',
  '/usr/bin',
  '/usr/sbin',
  '/usr/lib',
  '/etc',
  '/var',
  '/home',
  '/root',
]

/** See docs/decisions/volumes.md. Checking the text suffices, because the guest's kernel follows no links. */
export function checkMountPath(path: string): void {
  const why = wrongWith(path)
  if (why === null) return
  throw fail('validation_failed', 'invalid_path', `A volume cannot be mounted there: ${why}`, { details: { field: 'mount_path' } })
}

function wrongWith(path: string): string | null {
  if (!path.startsWith('/')) return 'the path is not absolute'
  if (Buffer.byteLength(path) > LIMITS.volume.mount_path_bytes_max) return 'the path is too long'
  const names = path.split('/').slice(1)
  if (path !== '/' && names.some((name) => name === '' || name === '.' || name === '..')) return 'the path has empty names, . or ..'
  if (RESERVED.some((reserved) => isAtOrBelow(path, reserved))) return 'the machine needs the place for itself'
  if (NEEDED.includes(path)) return 'the machine needs what is there'
  if (names.some((name) => Buffer.byteLength(name) > NAME_BYTES_MAX)) return 'a name is too long'
  return null
}

const NAME_BYTES_MAX = 255

export function conflicts(a: string, b: string): boolean {
  return isAtOrBelow(a, b) || isAtOrBelow(b, a)
}

function isAtOrBelow(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}/`)
}

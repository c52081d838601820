import { LIMITS } from '../../../contract/limits.ts'
import { RESERVED_SECRET_PREFIX } from '../../../contract/schemas/secrets.ts'
import { fail, type Failure } from '../../lib/fail.ts'

export function checkName(name: string): void {
  if (!name.startsWith(RESERVED_SECRET_PREFIX)) return
  throw fail('validation_failed', 'reserved_prefix', `Names that start with ${RESERVED_SECRET_PREFIX} are reserved`, {
    details: { field: 'name' },
  })
}

/** What an environment variable cannot hold. Nothing of the value is told. */
export function checkValue(value: string): void {
  if (value.includes('\0')) throw fail('validation_failed', 'nul_character', 'The value holds a NUL', { details: { field: 'value' } })
  if (!value.isWellFormed()) throw invalid('value', 'must be Unicode text')
  const max_bytes = LIMITS.secret.value_bytes_max
  if (Buffer.byteLength(value) > max_bytes) {
    throw fail('validation_failed', 'too_large', `The value is larger than ${max_bytes} bytes`, { details: { field: 'value', max_bytes } })
  }
}

export function invalid(path: string, message: string): Failure {
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}

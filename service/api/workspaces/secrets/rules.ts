import { LIMITS } from '../../../../contract/limits.ts'
import { type NormalSecretHost, RESERVED_SECRET_PREFIX, type SecretHost } from '../../../../contract/schemas/secrets.ts'
import { hostIssues, isHeaderValue, normalHosts } from '../../../../contract/secret-hosts.ts'
import { isPlaceholderIn } from '../../../core/secrets/authority.ts'
import { fail, type Failure } from '../../../lib/fail.ts'

export function checkName(name: string): void {
  if (!name.startsWith(RESERVED_SECRET_PREFIX)) return
  throw fail('validation_failed', 'reserved_prefix', `Names that start with ${RESERVED_SECRET_PREFIX} are reserved`, {
    details: { field: 'name' },
  })
}

/** Error messages must reveal nothing of the value. */
export function checkValue(value: string): void {
  if (value.includes('\0')) throw fail('validation_failed', 'nul_character', 'The value holds a NUL', { details: { field: 'value' } })
  if (!value.isWellFormed()) throw invalid('value', 'must be Unicode text')
  if (isPlaceholderIn(value))
    throw invalid('value', 'must not hold the placeholder of a secret: that is what a workspace has in place of a value')
  const max_bytes = LIMITS.secret.value_bytes_max
  if (Buffer.byteLength(value) > max_bytes) {
    throw fail('validation_failed', 'too_large', `The value is larger than ${max_bytes} bytes`, { details: { field: 'value', max_bytes } })
  }
}

export function checkedHosts(hosts: readonly SecretHost[] | null): NormalSecretHost[] | null {
  if (hosts === null) return null
  const issues = hostIssues(hosts)
  if (issues.length > 0) throw fail('validation_failed', null, 'The request is not valid', { details: { issues } })
  return normalHosts(hosts)
}

/** A control character in the value could begin another header. Error messages must reveal nothing of the value. */
export function checkValueForHosts(value: string, hosts: NormalSecretHost[] | null): void {
  if (hosts === null || isHeaderValue(value)) return
  throw invalid('value', 'must be visible ASCII, with spaces only within, to be put into requests')
}

export function invalid(path: string, message: string): Failure {
  return fail('validation_failed', null, 'The request is not valid', { details: { issues: [{ path, message }] } })
}

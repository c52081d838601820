import { LIMITS } from '../../../../contract/limits.ts'
import { type Failure, fail } from '../../../lib/fail.ts'

export function tarTooLarge(max_bytes: number): Failure {
  const message = `A tar has at most ${max_bytes} bytes and ${LIMITS.tar.entries_max} entries`
  return fail('payload_too_large', null, message, { details: { max_bytes } })
}

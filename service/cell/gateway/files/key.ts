import type { IncomingHttpHeaders } from 'node:http'
import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

const KEY = new RegExp(`^[A-Za-z0-9._:-]{1,${LIMITS.file_idempotency_key_characters_max}}$`)

/** Cell, File rules 1: the Idempotency-Key of a write or patch; null without one. */
export function keyOf(headers: IncomingHttpHeaders): string | null {
  const key = headers['idempotency-key']
  if (key === undefined) return null
  if (typeof key === 'string' && KEY.test(key)) return key
  throw fail('bad_request', null, 'The Idempotency-Key must be 1-100 characters of A-Z a-z 0-9 . _ : -', {
    details: { field: 'Idempotency-Key' },
  })
}

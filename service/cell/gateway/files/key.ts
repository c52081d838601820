import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

const KEY = new RegExp(`^[A-Za-z0-9._:-]{1,${LIMITS.file.idempotency_key_characters_max}}$`)

/** @returns null without a key (Cell, "File rules" 1) */
export function keyOf(named_headers: { 'Idempotency-Key'?: string }): string | null {
  const key = named_headers['Idempotency-Key']
  if (key === undefined) return null
  if (KEY.test(key)) return key
  const message = `must be 1-${LIMITS.file.idempotency_key_characters_max} characters of A-Z a-z 0-9 . _ : -`
  throw fail('validation_failed', null, 'The Idempotency-Key header is not valid', {
    details: { field: 'Idempotency-Key', issues: [{ path: 'Idempotency-Key', message }] },
  })
}

import { fail, type Failure } from '../../../lib/fail.ts'

export function buildRefusal(limit_value: number | null, running: number): Failure | null {
  if (limit_value === null || running < limit_value) return null
  return fail('quota_exceeded', null, 'The plan does not allow more builds of templates at once', {
    details: { limit: 'concurrent_template_builds', limit_value, current: running },
  })
}

import { type Failure, fail } from '../../lib/fail.ts'

export function crowded(): Failure {
  return fail('service_unavailable', null, 'The cell holds too many requests and answers at the moment', { retry_after_seconds: 1 })
}

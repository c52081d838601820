import { LIMITS } from '../../../../contract/limits.ts'
import { createKeyedCounts } from '../../../lib/bounded.ts'
import { fail } from '../../../lib/fail.ts'

/** Limits concurrent parts: each may write 64 MiB that no row counts yet. */
export interface PartPermits {
  /** @throws rate_limited */
  take(upload: { id: string; organization_id: string }): Disposable
}

export function createPartPermits(): PartPermits {
  const taken = createKeyedCounts()
  const { parts_at_once_max, parts_at_once_per_organization_max } = LIMITS.template_upload
  return {
    take({ id, organization_id }) {
      if (taken.of(id) >= parts_at_once_max || taken.of(organization_id) >= parts_at_once_per_organization_max) {
        throw fail('rate_limited', null, 'Too many parts are being received at once', { retry_after_seconds: 1 })
      }
      const permits = new DisposableStack()
      permits.use(taken.take(id))
      permits.use(taken.take(organization_id))
      return permits
    },
  }
}

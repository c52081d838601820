import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'

/** Each part may write 64 MiB that no row counts yet. */
export interface PartPermits {
  /** @throws rate_limited */
  take(upload: { id: string; organization_id: string }): Disposable
}

export function createPartPermits(): PartPermits {
  const taken = new Map<string, number>()
  const { parts_at_once_max, parts_at_once_per_organization_max } = LIMITS.template_upload
  return {
    take({ id, organization_id }) {
      const wanted = [
        [id, parts_at_once_max],
        [organization_id, parts_at_once_per_organization_max],
      ] as const
      if (wanted.some(([name, most]) => (taken.get(name) ?? 0) >= most))
        throw fail('rate_limited', null, 'Too many parts are being received at once', { retry_after_seconds: 1 })
      for (const [name] of wanted) taken.set(name, (taken.get(name) ?? 0) + 1)
      return {
        [Symbol.dispose]() {
          for (const [name] of wanted) {
            const left = (taken.get(name) ?? 1) - 1
            if (left === 0) taken.delete(name)
            else taken.set(name, left)
          }
        },
      }
    },
  }
}

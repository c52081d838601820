import { LIMITS } from '../../../contract/limits.ts'
import { fail } from '../../lib/fail.ts'

export function checkAcknowledged(paths: readonly string[] = []): string[] {
  const limit = LIMITS.template_build.acknowledged_findings_max
  const field = 'acknowledged_scan_findings'
  if (paths.length > limit) {
    const message = `At most ${limit} findings are acknowledged at once`
    throw fail('validation_failed', 'too_many_acknowledged_findings', message, { details: { field } })
  }
  const wrong = paths.find((path) => !/^\/[^\0]*[^/\0]$/.test(path) || /\/(\.{0,2})(\/|$)/.test(path))
  if (wrong !== undefined) {
    throw fail('validation_failed', 'invalid_path', 'A path is not absolute, or not in its shortest form', { details: { field } })
  }
  return [...new Set(paths)]
}

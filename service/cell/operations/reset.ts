import { replacement } from './replace.ts'
import { startRunning } from './running.ts'

/** A suspended workspace boots blank at its next resume. */
export const reset = replacement({
  replaced: 'reset',
  contentOf: async () => null,
  start: (job, seen, end) => startRunning(job, seen, seen.ownership_epoch, null, end),
  start_failed: 'start_failed',
  desired_after_failure: 'running',
  end: { event: 'started', before_connect: 'reset.Z6b', before_commit: 'reset.Z6c' },
  points: { close: 'reset.Z2', capture: 'reset.Z3', commit: 'reset.Z5', stop: 'reset.Z6', start: 'reset.Z6a' },
})

import { signalOf } from '../../../contract/schemas/cell/session.ts'
import { fail } from '../../lib/fail.ts'

/** The signal that may be sent, by its whole name: people write TERM, too. */
export function checkSignal(name: string): string {
  const signal = signalOf(name)
  if (signal !== undefined) return signal
  throw fail('validation_failed', null, 'There is no such signal', {
    details: { issues: [{ path: 'signal', message: 'must be a name such as SIGTERM' }] },
  })
}

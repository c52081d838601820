import { SIGNALS } from '../../../contract/schemas/cell/session.ts'
import { fail } from '../../lib/fail.ts'

/** The name of a signal that may be sent, as it was given. */
export function checkSignal(signal: string): string {
  if ((SIGNALS as readonly string[]).includes(signal)) return signal
  throw fail('validation_failed', null, 'There is no such signal', {
    details: { issues: [{ path: 'signal', message: 'must be a name such as SIGTERM' }] },
  })
}

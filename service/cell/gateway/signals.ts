import { signalOf } from '../../../contract/schemas/cell/session.ts'
import { fail } from '../../lib/fail.ts'

export function checkSignal(name: string): string {
  const signal = signalOf(name)
  if (signal !== undefined) return signal
  throw fail('validation_failed', null, 'There is no such signal', {
    details: { issues: [{ path: 'signal', message: 'must be a name such as SIGTERM' }] },
  })
}

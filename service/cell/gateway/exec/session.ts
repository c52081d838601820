import type { execCancel, execGet, execSignal } from '../../../../contract/routes/cell/exec.ts'
import { SIGNALS } from '../../../../contract/schemas/cell/session.ts'
import { fail } from '../../../lib/fail.ts'
import { ask } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'

export const getExec: GatewayHandler<typeof execGet> = async (call, _deps, ticket) => ({
  status: 200,
  body: await ask(ticket, 'read', call, (bounds) => ticket.agent.getExec(call.params.session_id, bounds)),
})

export const cancelExec: GatewayHandler<typeof execCancel> = async (call, _deps, ticket) => ({
  status: 200,
  body: await ask(ticket, 'change', call, (bounds) => ticket.agent.cancelExec(call.params.session_id, bounds)),
})

export const signalExec: GatewayHandler<typeof execSignal> = async (call, _deps, ticket) => {
  const { signal } = call.body
  if (!(SIGNALS as readonly string[]).includes(signal)) {
    throw fail('validation_failed', null, 'There is no such signal', {
      details: { issues: [{ path: 'signal', message: 'must be a name such as SIGTERM' }] },
    })
  }
  return {
    status: 200,
    body: await ask(ticket, 'change', call, (bounds) => ticket.agent.signalExec(call.params.session_id, signal, bounds)),
  }
}

import type { execCancel, execGet, execSignal } from '../../../../contract/routes/cell/exec.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { checkSignal } from '../signals.ts'

export const getExec: GatewayHandler<typeof execGet> = async (call, _deps, ticket) => ({
  status: 200,
  body: await callAgent(ticket, 'read', call, (bounds) => ticket.agent.getExec(call.params.session_id, bounds)),
})

export const cancelExec: GatewayHandler<typeof execCancel> = async (call, _deps, ticket) => ({
  status: 200,
  body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.cancelExec(call.params.session_id, bounds)),
})

export const signalExec: GatewayHandler<typeof execSignal> = async (call, _deps, ticket) => {
  const signal = checkSignal(call.body.signal)
  return {
    status: 200,
    body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.signalExec(call.params.session_id, signal, bounds)),
  }
}

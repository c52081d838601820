import type { ptyClose, ptyGet, ptyInput, ptyResize } from '../../../../contract/routes/cell/pty.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { bytesOf } from './rules.ts'

export const getTerminal: GatewayHandler<typeof ptyGet> = async (call, _deps, ticket) => ({
  status: 200,
  body: await callAgent(ticket, 'read', call, (bounds) => ticket.agent.getTerminal(call.params.session_id, bounds)),
})

export const closeTerminal: GatewayHandler<typeof ptyClose> = async (call, _deps, ticket) => ({
  status: 200,
  body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.closeTerminal(call.params.session_id, bounds)),
})

export const resizeTerminal: GatewayHandler<typeof ptyResize> = async (call, _deps, ticket) => ({
  status: 200,
  body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.resizeTerminal(call.params.session_id, call.body, bounds)),
})

export const typeIntoTerminal: GatewayHandler<typeof ptyInput> = async (call, _deps, ticket) => {
  const data = bytesOf(call.body.data).toString('base64')
  return {
    status: 200,
    body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.typeIntoTerminal(call.params.session_id, data, bounds)),
  }
}

import type { ptyOpen } from '../../../../contract/routes/cell/pty.ts'
import { ask } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { terminalOf } from './rules.ts'

export const openTerminal: GatewayHandler<typeof ptyOpen> = async (call, { ids }, ticket) => {
  const session_id = call.body.session_id ?? ids.next()
  const terminal = terminalOf(call.body, ticket.entry, session_id)
  const { status, body } = await ask(ticket, 'change', call, (bounds) => ticket.agent.openTerminal(terminal, bounds), { session_id })
  return { status: status === 200 ? 200 : 201, body }
}

import type { ptyOpen } from '../../../../contract/routes/cell/pty.ts'
import { callAgent } from '../ask.ts'
import { secretVariables } from '../secret-variables.ts'
import type { GatewayHandler } from '../handler.ts'
import { withEnvironment } from '../exec/rules.ts'
import { terminalOf } from './rules.ts'

export const openTerminal: GatewayHandler<typeof ptyOpen> = async (call, { ids, secrets }, ticket) => {
  const session_id = call.body.session_id ?? ids.next()
  const asked = terminalOf(call.body, session_id)
  const terminal = withEnvironment(asked, ticket.entry, await secretVariables(ticket, call, secrets, 'pty', asked.secret_refs))
  const { status, body } = await callAgent(ticket, 'change', call, (bounds) => ticket.agent.openTerminal(terminal, bounds), { session_id })
  return { status: status === 200 ? 200 : 201, body }
}

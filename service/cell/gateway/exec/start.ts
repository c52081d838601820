import type { execStart } from '../../../../contract/routes/cell/exec.ts'
import type { GatewayHandler } from '../handler.ts'
import { ask } from '../ask.ts'
import { commandOf } from './rules.ts'

export const startExec: GatewayHandler<typeof execStart> = async (call, { ids }, ticket) => {
  const session_id = call.body.session_id ?? ids.next()
  const command = commandOf(call.body, ticket.entry, session_id)
  const { status, body } = await ask(ticket, 'change', call, (bounds) => ticket.agent.startExec(command, bounds), { session_id })
  return { status: status === 200 ? 200 : 201, body }
}

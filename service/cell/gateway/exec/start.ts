import type { execStart } from '../../../../contract/routes/cell/exec.ts'
import type { GatewayHandler } from '../handler.ts'
import { callAgent } from '../ask.ts'
import { secretVariables } from '../secret-variables.ts'
import { commandOf, withEnvironment } from './rules.ts'

export const startExec: GatewayHandler<typeof execStart> = async (call, { ids, secrets }, ticket) => {
  const session_id = call.body.session_id ?? ids.next()
  const asked = commandOf(call.body, session_id)
  const command = withEnvironment(asked, ticket.entry, await secretVariables(ticket, call, secrets, 'exec', asked.secret_refs))
  const { status, body } = await callAgent(ticket, 'change', call, (bounds) => ticket.agent.startExec(command, bounds), { session_id })
  return { status: status === 200 ? 200 : 201, body }
}

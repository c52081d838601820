import type { ptyList } from '../../../../contract/routes/cell/pty.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'

export const listTerminals: GatewayHandler<typeof ptyList> = async (call, _deps, ticket) => {
  const asked = { limit: LIMITS.page.size_default, ...call.query }
  return { status: 200, body: await callAgent(ticket, 'read', call, (bounds) => ticket.agent.listTerminals(asked, bounds)) }
}

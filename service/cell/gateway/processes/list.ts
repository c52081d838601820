import type { processList } from '../../../../contract/routes/cell/processes.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'

export const listProcesses: GatewayHandler<typeof processList> = async (call, _deps, ticket) => {
  const limit = call.query.limit ?? LIMITS.process.list_default
  return { status: 200, body: await callAgent(ticket, 'read', call, (bounds) => ticket.agent.listProcesses(limit, bounds)) }
}

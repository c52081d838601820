import { LIMITS } from '../../../../contract/limits.ts'
import type { gitStatus } from '../../../../contract/routes/cell/git.ts'
import { callAgent } from '../ask.ts'
import { environmentOf } from '../environment.ts'
import { pathOf } from '../files/path.ts'
import type { GatewayHandler } from '../handler.ts'

export const readStatus: GatewayHandler<typeof gitStatus> = async (call, _deps, ticket) => {
  const asked = { path: pathOf(call.body_stream.url ?? ''), env: environmentOf(ticket.entry), timeout_ms: LIMITS.git.timeout_ms }
  return { status: 200, body: await callAgent(ticket, 'read', call, (bounds) => ticket.agent.gitStatus(asked, bounds)) }
}

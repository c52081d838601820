import type { changesList } from '../../../../contract/routes/cell/changes.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { fail } from '../../../lib/fail.ts'
import type { ChangesFilter } from '../../host/agent-asked.ts'
import { AgentFailure } from '../../host/agent-failure.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'

export const listChanges: GatewayHandler<typeof changesList> = async (call, _deps, ticket) => {
  if (ticket.entry.disk_layout !== 'layered') {
    throw fail('conflict', 'legacy_disk_layout', "The workspace's disk is a full copy of its template: changes are not kept apart")
  }
  const { path_prefix, cursor, limit = LIMITS.page.size_default, hash = false, summary = false } = call.query
  const filter: ChangesFilter = { limit, hash, summary }
  if (path_prefix !== undefined) filter.path_prefix = path_prefix
  if (cursor !== undefined) filter.cursor = cursor
  const body = await callAgent(ticket, 'read', call, async (bounds) => {
    const result = await ticket.agent.listChanges(filter, bounds)
    if (result.data.length <= limit && (result.summary !== null) === summary) return result
    throw new AgentFailure('nonsense', 'The agent listed other changes than it was asked for')
  })
  return { status: 200, body }
}

import type { gitCommit } from '../../../../contract/routes/cell/git.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { commitOf } from './rules.ts'

export const commitChanges: GatewayHandler<typeof gitCommit> = async (call, _deps, ticket) => {
  const commit = commitOf(call.body, ticket.entry)
  return { status: 201, body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.commitChanges(commit, bounds)) }
}

import type { gitClone } from '../../../../contract/routes/cell/git.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { secretForGit } from '../secret-variables.ts'
import { cloneOf, withSecret } from './rules.ts'

export const cloneRepository: GatewayHandler<typeof gitClone> = async (call, { secrets }, ticket) => {
  const given = call.named_headers['X-Git-Authorization']
  const asked = cloneOf(call.body, given, ticket.entry)
  const secret = await secretForGit(ticket, call, secrets, call.body.authorization_secret)
  const clone = secret === null ? asked : withSecret(asked, secret)
  return { status: 201, body: await callAgent(ticket, 'change', call, (bounds) => ticket.agent.cloneRepository(clone, bounds)) }
}

import type { browserScreenshot } from '../../../../contract/routes/cell/browser.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { endWhenIdle } from '../end-when-idle.ts'
import { carry, promisedBytes } from './carry.ts'
import { visitOf } from './rules.ts'

export const takeScreenshot: GatewayHandler<typeof browserScreenshot> = async (call, { agent_idle_ms }, ticket) => {
  const visit = { ...visitOf(call.body, ticket.entry), full_page: call.body.full_page ?? false }
  const { answer, bytes } = await callAgent(ticket, 'change', call, async (bounds) => {
    const answer = await ticket.agent.openBrowser('screenshot', visit, bounds)
    return { answer, bytes: promisedBytes(answer) }
  })
  return carry(answer, bytes, 'image/png', (response) => endWhenIdle(answer, response, ticket, agent_idle_ms))
}

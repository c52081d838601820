import type { browserContent } from '../../../../contract/routes/cell/browser.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { endWhenIdle } from '../end-when-idle.ts'
import { carry, promisedBytes } from './carry.ts'
import { visitOf } from './rules.ts'

const TYPES = { html: 'text/html; charset=utf-8', text: 'text/plain; charset=utf-8' } as const

export const readContent: GatewayHandler<typeof browserContent> = async (call, { agent_idle_ms }, ticket) => {
  const format = call.body.format ?? 'html'
  const visit = { ...visitOf(call.body, ticket.entry), format }
  const { answer, bytes } = await callAgent(ticket, 'change', call, async (bounds) => {
    const answer = await ticket.agent.openBrowser('content', visit, bounds)
    return { answer, bytes: promisedBytes(answer) }
  })
  return carry(answer, bytes, TYPES[format], (response) => endWhenIdle(answer, response, ticket, agent_idle_ms))
}

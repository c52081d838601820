import type { browserContent } from '../../../../contract/routes/cell/browser.ts'
import { ask } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { carry, promisedBytes } from './carry.ts'
import { visitOf } from './rules.ts'

const TYPES = { html: 'text/html; charset=utf-8', text: 'text/plain; charset=utf-8' } as const

export const readContent: GatewayHandler<typeof browserContent> = async (call, _deps, ticket) => {
  const format = call.body.format ?? 'html'
  const visit = { ...visitOf(call.body, ticket.entry), format }
  const { answer, bytes } = await ask(ticket, 'change', async () => {
    const answer = await ticket.agent.openBrowser('content', visit, call.signal)
    return { answer, bytes: promisedBytes(answer) }
  })
  return carry(answer, bytes, TYPES[format])
}

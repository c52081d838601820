import type { browserScreenshot } from '../../../../contract/routes/cell/browser.ts'
import { ask } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { carry, promisedBytes } from './carry.ts'
import { visitOf } from './rules.ts'

export const takeScreenshot: GatewayHandler<typeof browserScreenshot> = async (call, _deps, ticket) => {
  const visit = { ...visitOf(call.body, ticket.entry), full_page: call.body.full_page ?? false }
  const { answer, bytes } = await ask(ticket, 'change', async () => {
    const answer = await ticket.agent.openBrowser('screenshot', visit, call.signal)
    return { answer, bytes: promisedBytes(answer) }
  })
  return carry(answer, bytes, 'image/png')
}

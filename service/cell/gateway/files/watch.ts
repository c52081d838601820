import type { filesWatch } from '../../../../contract/routes/cell/watch.ts'
import { createWatchReader } from '../../host/watch-lines.ts'
import { callAgent } from '../ask.ts'
import { relayEvents } from '../relay-events.ts'
import { encodingFor } from '../exec/event-encoding.ts'
import type { GatewayHandler } from '../handler.ts'
import { pathOf } from './path.ts'

/** A reader that reconnects continues at its offset (decision 257). */
export const watchFiles: GatewayHandler<typeof filesWatch> = async (call, _deps, ticket) => {
  const { recursive = false, watch_id, offset = 0 } = call.query
  const asked = { path: pathOf(call.url), recursive, ...(watch_id === undefined ? {} : { watch_id, offset }) }
  const encoding = encodingFor(call.headers.accept)
  const frames = await callAgent(ticket, 'read', call, (bounds) => ticket.agent.openWatch(asked, bounds))
  const carrying = { frames, follow: true, encoding, ticket, request_id: call.request_id }
  return {
    stream: (response) =>
      relayEvents({
        ...carrying,
        response,
        read: ({ text, end }) =>
          createWatchReader({
            event: (event) => text(encoding.event(event)),
            end(event) {
              text(encoding.event(event))
              end({ kind: 'exit' })
            },
          }),
      }),
  }
}

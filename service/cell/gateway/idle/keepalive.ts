import type { keepalive } from '../../../../contract/routes/cell/idle.ts'
import type { GatewayHandler } from '../handler.ts'
import { writeKeepalive } from './store.ts'

/** Written before it is answered. Not tool activity. */
export const keepAlive: GatewayHandler<typeof keepalive> = async (call, { db }, ticket) => {
  const { seconds } = call.body
  const until = new Date(call.now.getTime() + seconds * 1000)
  return { status: 200, body: { keepalive_until: await writeKeepalive(db, ticket.entry.id, until, seconds === 0) } }
}

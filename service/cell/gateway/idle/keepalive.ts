import type { keepalive } from '../../../../contract/routes/cell/idle.ts'
import type { GatewayHandler } from '../handler.ts'
import { writeKeepalive } from './store.ts'

/** A keepalive is no tool activity. Its end is stored before the answer. */
export const keepAlive: GatewayHandler<typeof keepalive> = async (call, { db, table, waking }, ticket) => {
  const { seconds } = call.body
  const { id } = ticket.entry
  const until = new Date(call.now.getTime() + seconds * 1000)
  const keepalive_until = await writeKeepalive(db, id, until, seconds === 0)
  let entry = await table.fresh(id)
  // Twice: the first wake may only wait for a parking in progress.
  for (let turn = 0; turn < 2 && seconds > 0 && entry !== undefined && waking.ready(entry) === null; turn += 1) {
    await waking.wake(entry)
    entry = await table.fresh(id)
  }
  return { status: 200, body: { keepalive_until } }
}

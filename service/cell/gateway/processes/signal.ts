import type { processSignal } from '../../../../contract/routes/cell/processes.ts'
import { ask } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { checkSignal } from '../signals.ts'

export const signalProcess: GatewayHandler<typeof processSignal> = async (call, _deps, ticket) => {
  const signal = checkSignal(call.body.signal)
  await ask(ticket, 'change', call, (bounds) => ticket.agent.signalProcess(call.params.pid, signal, bounds))
  return { status: 204 }
}

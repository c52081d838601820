import type { processSignal } from '../../../../contract/routes/cell/processes.ts'
import { callAgent } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { checkSignal } from '../signals.ts'

export const signalProcess: GatewayHandler<typeof processSignal> = async (call, _deps, ticket) => {
  const signal = checkSignal(call.body.signal)
  await callAgent(ticket, 'change', call, (bounds) => ticket.agent.signalProcess(call.params.pid, signal, bounds))
  return { status: 204 }
}

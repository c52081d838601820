import type { wakeHint } from '../../../../contract/routes/cell/idle.ts'
import type { GatewayHandler } from '../handler.ts'

/** A running workspace's machine is resident, or frozen until a call thaws it; not tool activity. */
export const hintWake: GatewayHandler<typeof wakeHint> = (_call, _deps, ticket) =>
  Promise.resolve({ status: 202, body: { residency: ticket.entry.machine?.state === 'frozen' ? 'frozen' : 'resident' } })

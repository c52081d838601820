import type { wakeHint } from '../../../../contract/routes/cell/idle.ts'
import type { GatewayHandler } from '../handler.ts'

/** A hint is no tool activity. */
export const hintWake: GatewayHandler<typeof wakeHint> = (_call, { waking }, ticket) =>
  Promise.resolve({ status: 202, body: { residency: ticket.entry.mode === 'file_first' ? 'resident' : waking.hint(ticket.entry) } })

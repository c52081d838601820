import type { execStdin } from '../../../../contract/routes/cell/exec.ts'
import type { ExecStdin } from '../../../../contract/schemas/cell/session.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { readBody } from '../../../http/read-body.ts'
import { callAgent } from '../ask.ts'
import type { MachineCallLease } from '../../admission/call-lease.ts'
import type { GatewayHandler } from '../handler.ts'

export const sendStdin: GatewayHandler<typeof execStdin> = async (call, _deps, ticket) => {
  const bytes = (await readBody(call.body_stream, LIMITS.exec.stdin_bytes_max)) ?? Buffer.alloc(0)
  const { offset, close = false } = call.query
  return { status: 200, body: await writeStdin(ticket, call, { offset, close, bytes }) }
}

export type StdinCaller = { signal: AbortSignal; params: { session_id: string } }
export interface StdinPart {
  offset: number
  close: boolean
  bytes: Buffer
}

/** Repeatable, because the agent writes the bytes of an offset only once. */
export function writeStdin(ticket: MachineCallLease, call: StdinCaller, { bytes, ...part }: StdinPart): Promise<ExecStdin> {
  return callAgent(ticket, 'read', call, (bounds) => ticket.agent.writeStdin(call.params.session_id, part, bytes, bounds))
}

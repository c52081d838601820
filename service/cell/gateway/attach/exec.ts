import type { execAttach } from '../../../../contract/routes/cell/attach.ts'
import { COMMAND_MESSAGES } from '../../../../contract/schemas/cell/attach.ts'
import { Failure } from '../../../lib/fail.ts'
import { createFrameReader } from '../../links/output-frames.ts'
import { ask } from '../ask.ts'
import type { GatewayHandler } from '../handler.ts'
import { carry } from './carry.ts'
import { messageReader } from './messages.ts'

const read = messageReader(COMMAND_MESSAGES)

export const attachExec: GatewayHandler<typeof execAttach> = async (call, _deps, ticket) => {
  const { session_id } = call.params
  const { stdout_offset = 0, stderr_offset = 0 } = call.query
  const from = { stdout_offset, stderr_offset }
  const frames = await ask(ticket, 'read', call, (bounds) => ticket.agent.openOutput(session_id, { ...from, follow: true }, bounds))
  const take = async (said: Buffer) => {
    const message = read(said)
    await unlessEnded(() =>
      ask(ticket, 'change', call, (bounds) =>
        message.type === 'cancel'
          ? ticket.agent.cancelExec(session_id, bounds)
          : ticket.agent.signalExec(session_id, message.signal, bounds),
      ),
    )
  }
  return {
    websocket: (socket) =>
      carry({
        socket,
        ticket,
        frames,
        take,
        reader: ({ say, exited, refused }) =>
          createFrameReader(from, {
            // Put together by hand: base64 needs no escaping, and this line is the whole cost of a stream.
            output: (stream, offset, data) =>
              say(`{"type":"output","stream":"${stream}","offset":${offset},"data":"${data.toString('base64')}"}`),
            exit: (ending) => exited(JSON.stringify({ type: 'exit', ...ending })),
            error: refused,
          }),
      }),
  }
}

/** A signal that meets the command's end comes too late, and the exit event that is on its way says so. */
async function unlessEnded(signalled: () => Promise<unknown>): Promise<void> {
  try {
    await signalled()
  } catch (error) {
    if (!(error instanceof Failure) || error.code !== 'conflict' || error.reason !== undefined) throw error
  }
}

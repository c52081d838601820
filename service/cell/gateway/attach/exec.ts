import type { execAttach } from '../../../../contract/routes/cell/attach.ts'
import type { WebSocket } from 'ws'
import { COMMAND_MESSAGES } from '../../../../contract/schemas/cell/attach.ts'
import type { ExecStdin } from '../../../../contract/schemas/cell/session.ts'
import { Failure } from '../../../lib/fail.ts'
import { createFrameReader } from '../../host/output-frames.ts'
import { callAgent } from '../ask.ts'
import { type StdinCaller, type StdinPart, writeStdin } from '../exec/stdin.ts'
import type { MachineCallLease } from '../../admission/call-lease.ts'
import type { GatewayHandler } from '../handler.ts'
import { bytesOf } from '../pty/rules.ts'
import { checkSignal } from '../signals.ts'
import { relay } from './relay.ts'
import { messageReader } from './messages.ts'

const read = messageReader(COMMAND_MESSAGES)

export const attachExec: GatewayHandler<typeof execAttach> = async (call, _deps, ticket) => {
  const { session_id } = call.params
  const { stdout_offset = 0, stderr_offset = 0 } = call.query
  const from = { stdout_offset, stderr_offset }
  const frames = await callAgent(ticket, 'read', call, (bounds) => ticket.agent.openOutput(session_id, { ...from, follow: true }, bounds))
  const takeOn = (socket: WebSocket) => async (said: Buffer) => {
    const message = read(said)
    if (message.type === 'stdin') {
      const { offset, close = false } = message
      const at = await writeAll(ticket, call, socket, { offset, close, bytes: bytesOf(message.data) })
      return void socket.send(JSON.stringify({ type: 'stdin', ...at }))
    }
    await unlessEnded(() =>
      callAgent(ticket, 'change', call, (bounds) =>
        message.type === 'cancel'
          ? ticket.agent.cancelExec(session_id, bounds)
          : ticket.agent.signalExec(session_id, checkSignal(message.signal), bounds),
      ),
    )
  }
  return {
    websocket: (socket) =>
      relay({
        socket,
        ticket,
        frames,
        take: takeOn(socket),
        reader: ({ say, exited, refused }) =>
          createFrameReader(from, {
            // Built without JSON.stringify: Base64 needs no escaping, and this line dominates the cost of a stream.
            output: (stream, offset, data) =>
              say(`{"type":"output","stream":"${stream}","offset":${offset},"data":"${data.toString('base64')}"}`),
            exit: (ending) => exited(JSON.stringify({ type: 'exit', ...ending })),
            error: refused,
          }),
      }),
  }
}

/** Stops reading from the client while the command does not read. A closed stdin does not end the output. */
async function writeAll(ticket: MachineCallLease, call: StdinCaller, socket: WebSocket, part: StdinPart): Promise<ExecStdin> {
  try {
    for (;;) {
      const at = await writeStdin(ticket, call, part)
      const taken = at.offset >= part.offset + part.bytes.length && !(part.close && at.open)
      if (taken || socket.readyState !== socket.OPEN) return at
    }
  } catch (error) {
    if (!(error instanceof Failure) || error.reason !== 'stdin_closed') throw error
    return { offset: Number(error.options.details?.['stdin_offset'] ?? 0), open: false }
  }
}

/** Ignores that the session has ended, because the exit event reports the end. */
async function unlessEnded(signalled: () => Promise<unknown>): Promise<void> {
  try {
    await signalled()
  } catch (error) {
    if (!(error instanceof Failure) || error.reason !== 'session_ended') throw error
  }
}

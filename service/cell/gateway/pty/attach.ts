import type { Socket } from 'node:net'
import type { ptyAttach } from '../../../../contract/routes/cell/pty.ts'
import { TERMINAL_MESSAGES } from '../../../../contract/schemas/cell/terminal.ts'
import { inputFrame, readTerminalFrames, resizeFrame } from '../../host/terminal-frames.ts'
import { callAgent } from '../ask.ts'
import { relay } from '../attach/relay.ts'
import { messageReader } from '../attach/messages.ts'
import type { GatewayHandler } from '../handler.ts'
import { bytesOf } from './rules.ts'

const read = messageReader(TERMINAL_MESSAGES)

export const attachTerminal: GatewayHandler<typeof ptyAttach> = async (call, _deps, ticket) => {
  const { offset = 0 } = call.query
  const agent = await callAgent(ticket, 'read', call, (bounds) => ticket.agent.attachTerminal(call.params.session_id, offset, bounds))
  const take = (said: Buffer) => {
    const message = read(said)
    return send(agent, message.type === 'input' ? inputFrame(bytesOf(message.data)) : resizeFrame(message))
  }
  return {
    websocket: (socket) =>
      relay({
        socket,
        ticket,
        frames: agent,
        take,
        reader: ({ say, exited, refused }) =>
          readTerminalFrames(offset, {
            output: (at, data) => say(`{"type":"output","offset":${at},"data":"${data.toString('base64')}"}`),
            exit: (ending) => exited(JSON.stringify({ type: 'exit', ...ending })),
            error: refused,
          }),
      }),
  }
}

/** Stops reading from the client while the terminal's program does not read. */
function send(agent: Socket, frame: Buffer): Promise<void> | undefined {
  if (agent.destroyed || agent.write(frame)) return undefined
  return new Promise((resolve) => {
    const taken = () => {
      agent.off('drain', taken).off('close', taken)
      resolve()
    }
    agent.on('drain', taken).on('close', taken)
  })
}

import { chmod, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import type { ToProxy } from '../../../contract/internal/ports.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { Logger } from 'pino'
import { logAcceptErrors } from '../../lib/accept-errors.ts'
import { parseFrame, type FromProxy } from './frames.ts'

export interface Heard {
  hear(frame: FromProxy): boolean
  close(): void
}

/** Only members of the folder's group can connect, which is the group of the proxy. */
const SOCKET_MODE = 0o660
const CONNECTIONS_MAX = 8
/** A proxy with this many unread bytes is disconnected as unresponsive. */
const UNREAD_BYTES_MAX = 16 << 20

export async function listenForProxies(
  path: string,
  log: Logger,
  begin: (say: (frame: ToProxy) => void, end: () => void) => Heard,
): Promise<{ close(): Promise<void> }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    converse(socket, log, begin)
  })
  server.maxConnections = CONNECTIONS_MAX
  logAcceptErrors(server, log)
  await rm(path, { force: true }) // the socket of an earlier run: only one process acts for the cell
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject)
  server.listen(path, resolve)
  await promise
  await chmod(path, SOCKET_MODE)
  return {
    async close() {
      const ended = new Promise<void>((done) => server.close(() => done()))
      for (const socket of sockets) socket.destroy()
      await ended
    },
  }
}

function converse(socket: Socket, log: Logger, begin: Parameters<typeof listenForProxies>[2]): void {
  const say = (frame: ToProxy) => {
    if (socket.destroyed) return
    socket.write(`${JSON.stringify(frame)}\n`)
    if (socket.writableLength > UNREAD_BYTES_MAX) socket.destroy(new Error('The proxy does not read'))
  }
  const heard = begin(say, () => socket.destroy(new Error('The proxy does not end what was cut')))
  const refuse = (why: string) => {
    log.warn({ why }, 'a connection of a proxy of ports is closed')
    socket.destroy()
  }
  let rest = ''
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of [...lines, rest]) if (line.length > LIMITS.port.frame_bytes_max) return refuse('a line is too long')
    for (const line of lines) {
      const frame = parseFrame(line)
      if (frame === null) return refuse('a line is no frame')
      if (!heard.hear(frame)) return refuse('a frame makes no sense')
    }
  })
  socket.on('error', (error) => log.debug({ err: error }, 'a connection of a proxy of ports broke')) // the event `close` follows and cleans up
  socket.on('close', () => heard.close())
}

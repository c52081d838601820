import type { Server } from 'node:net'
import type { Logger } from 'pino'

/** A connection that the kernel could not accept, for want of memory, is an error of the server. Without a listener it would end the process. */
export function outliveErrors(server: Server, logger: Pick<Logger, 'warn'> | null): void {
  server.once('listening', () => server.on('error', (error) => logger?.warn({ err: error }, 'a connection could not be accepted')))
}

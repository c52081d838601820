import type { Server } from 'node:net'
import type { Logger } from 'pino'

/** Accept failures (the kernel is out of memory) are errors of the server; without a listener they would end the process. */
export function logAcceptErrors(server: Server, logger: Pick<Logger, 'warn'> | null): void {
  server.once('listening', () => server.on('error', (error) => logger?.warn({ err: error }, 'a connection could not be accepted')))
}

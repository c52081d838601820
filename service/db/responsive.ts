import type pg from 'pg'

/**
 * Whether the server answers. Only an answer proves contact, because a stopped server keeps its sockets open.
 * An answer that arrived while this process stood still counts.
 */
export function isResponsive(client: pg.Client, within_ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  // In an immediate: after a standstill the event loop runs timers first, then reads sockets, and runs immediates last.
  const deadline = setTimeout(() => setImmediate(() => resolve(false)), within_ms)
  client.query('select 1').then(
    () => resolve(true),
    () => resolve(false),
  )
  return promise.finally(() => clearTimeout(deadline))
}

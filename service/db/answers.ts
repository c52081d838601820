import type pg from 'pg'

/**
 * Whether the server at the other end answers in time: one that is stopped rather than gone keeps the socket open, and only an answer
 * proves contact. What has come while this process itself stood still counts: it is read before the time is judged to be over.
 */
export function answers(client: pg.Client, within_ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  // After a standstill the loop runs timers first, reads sockets then, and runs what is set for "immediately" last.
  const deadline = setTimeout(() => setImmediate(() => resolve(false)), within_ms)
  client.query('select 1').then(
    () => resolve(true),
    () => resolve(false),
  )
  return promise.finally(() => clearTimeout(deadline))
}

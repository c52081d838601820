/** SQLSTATEs of temporary failures: connection lost, shutting down, starting, out of resources, read-only, disk full. */
const UNAVAILABLE_STATES = /^(08...|53...|57P0[1-5]|57014|25006|58...|55P03|40001|40P01)$/
const UNAVAILABLE_ERRNO = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EACCES',
])
/** Messages of the driver's errors that have no code. */
const UNAVAILABLE_MESSAGES =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Query read timeout|Client was closed)/

/** @returns true if the database is unavailable; false for other errors, for example a wrong query. */
export function databaseIsUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code, syscall } = error as { code?: unknown; syscall?: unknown }
  if (typeof code === 'string') {
    if (UNAVAILABLE_STATES.test(code)) return true
    if (UNAVAILABLE_ERRNO.has(code) && (syscall === 'connect' || syscall === 'read' || syscall === 'write' || syscall === 'getaddrinfo'))
      return true
  }
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.every(databaseIsUnavailable)
  return UNAVAILABLE_MESSAGES.test(error.message)
}

import { constants } from 'node:os'
import { CliError } from './command.ts'

const ENDING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** The first signal aborts the work, so that it can clean up. A second one ends the process at once. */
export async function untilSignal<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const leaving = new AbortController()
  const leave = (name: NodeJS.Signals) => leaving.abort(new CliError(`Ended by ${name}`, { exit_code: 128 + constants.signals[name] }))
  for (const name of ENDING) process.once(name, leave)
  try {
    return await work(leaving.signal)
  } catch (error) {
    leaving.signal.throwIfAborted()
    throw error
  } finally {
    for (const name of ENDING) process.off(name, leave)
  }
}

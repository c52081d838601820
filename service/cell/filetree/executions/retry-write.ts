import { setTimeout } from 'node:timers/promises'
import { LIMITS } from '../../../../contract/limits.ts'
import { databaseIsUnavailable } from '../../../http/database-failure.ts'

const AGAIN_MS = 500

/**
 * Repeats the write while the database is unavailable: a command's result exists nowhere else. The write must be idempotent, because it
 * is repeated when only its response was lost.
 */
export async function retryWrite<T>(write: () => Promise<T>): Promise<T> {
  const until_ms = performance.now() + LIMITS.execution.written_within_seconds * 1000
  for (;;) {
    try {
      return await write()
    } catch (error) {
      if (!databaseIsUnavailable(error) || performance.now() > until_ms) throw error
      await setTimeout(AGAIN_MS)
    }
  }
}

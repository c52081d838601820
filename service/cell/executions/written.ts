import { setTimeout } from 'node:timers/promises'
import { LIMITS } from '../../../contract/limits.ts'
import { databaseIsUnavailable } from '../../http/database-failure.ts'

const AGAIN_MS = 500

/**
 * Writes, and again while the database refuses, for a bounded time: the result of a command exists nowhere else. A write whose answer was
 * lost is repeated, so each names what it changes.
 */
export async function written<T>(write: () => Promise<T>): Promise<T> {
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

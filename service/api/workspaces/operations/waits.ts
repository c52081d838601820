import { LIMITS } from '../../../../contract/limits.ts'
import type { Reader } from '../../../db/reader.ts'
import type { Listener } from '../../../db/listen.ts'
import { readOperation } from './store.ts'
import type { OperationRow } from './view.ts'

export interface Waits {
  /**
   * Waits until `enough` accepts the operation, the time is over, or the caller disconnects.
   * @returns waited: false if too many calls wait already.
   */
  until(
    id: string,
    enough: (row: OperationRow) => boolean,
    seconds: number,
    signal: AbortSignal,
  ): Promise<{ row: OperationRow | null; waited: boolean }>
  /** Ends every wait, because the process shuts down. */
  close(): void
}

interface Waiter {
  see(row: OperationRow): void
  fail(cause: unknown): void
  stop(): void
}

export function openWaits(reads: Reader, listener: Pick<Listener, 'on'>): Waits {
  const waiting = new Map<string, Set<Waiter>>()
  let held = 0
  let closed = false
  const again = new Map<string, boolean>() // ids being read; true: notified again in the meantime

  // Reads each notified id once for all its waiters.
  const reread = async (id: string) => {
    if (again.has(id)) {
      again.set(id, true)
      return
    }
    do {
      again.set(id, false)
      try {
        const row = await readOperation(reads, id)
        if (row) for (const waiter of waiting.get(id) ?? []) waiter.see(row)
      } catch (error) {
        for (const waiter of waiting.get(id) ?? []) waiter.fail(error)
      }
    } while (again.get(id))
    again.delete(id)
  }
  const unsubscribe = listener.on('berth_operation', (id) => {
    for (const heard of id === null ? [...waiting.keys()] : [id]) if (waiting.has(heard)) void reread(heard)
  })

  const hold = (id: string, enough: (row: OperationRow) => boolean, seconds: number, signal: AbortSignal) =>
    new Promise<OperationRow | null>((resolve, reject) => {
      let last: OperationRow | null = null
      const finish = (settle: () => void) => {
        clearTimeout(deadline)
        signal.removeEventListener('abort', waiter.stop)
        const set = waiting.get(id)
        set?.delete(waiter)
        if (set?.size === 0) waiting.delete(id)
        settle()
      }
      const waiter: Waiter = {
        see: (row) => {
          last = row
          if (enough(row)) finish(() => resolve(row))
        },
        fail: (cause) => finish(() => reject(cause instanceof Error ? cause : new Error('a read failed', { cause }))),
        stop: () => finish(() => resolve(last)),
      }
      const deadline = setTimeout(waiter.stop, seconds * 1000)
      signal.addEventListener('abort', waiter.stop)
      waiting.set(id, (waiting.get(id) ?? new Set()).add(waiter))
      // Registers before reading, so that no change in between is missed.
      void reread(id)
      if (signal.aborted) waiter.stop()
    })

  return {
    async until(id, enough, seconds, signal) {
      if (closed || held >= LIMITS.wait.held_calls_max) {
        const row = await readOperation(reads, id)
        return { row, waited: false }
      }
      held++
      try {
        return { row: await hold(id, enough, seconds, signal), waited: true }
      } finally {
        held--
      }
    },
    close() {
      closed = true
      unsubscribe()
      for (const set of [...waiting.values()]) for (const waiter of [...set]) waiter.stop()
    },
  }
}

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
  /** Ends every wait when the process shuts down. */
  close(): void
}

interface Waiter {
  see(row: OperationRow): void
  fail(cause: unknown): void
  stop(): void
}

type Enough = (row: OperationRow) => boolean

interface WaitsState {
  reads: Reader
  waiting: Map<string, Set<Waiter>>
  /** Ids that are being read. true: notified during the read, so the id is read again. */
  again: Map<string, boolean>
  held: number
  closed: boolean
}

export function openWaits(reads: Reader, listener: Pick<Listener, 'on'>): Waits {
  const state: WaitsState = { reads, waiting: new Map(), again: new Map(), held: 0, closed: false }
  const { waiting } = state
  const unsubscribe = listener.on('berth_operation', (id) => {
    for (const heard of id === null ? [...waiting.keys()] : [id]) if (waiting.has(heard)) void reread(state, heard)
  })
  return {
    until: (id, enough, seconds, signal) => until(state, id, enough, seconds, signal),
    close() {
      state.closed = true
      unsubscribe()
      for (const set of [...waiting.values()]) for (const waiter of [...set]) waiter.stop()
    },
  }
}

async function until(
  state: WaitsState,
  id: string,
  enough: Enough,
  seconds: number,
  signal: AbortSignal,
): Promise<{ row: OperationRow | null; waited: boolean }> {
  if (state.closed || state.held >= LIMITS.wait.held_calls_max) {
    const row = await readOperation(state.reads, id)
    return { row, waited: false }
  }
  state.held++
  try {
    return { row: await hold(state, id, enough, seconds, signal), waited: true }
  } finally {
    state.held--
  }
}

function hold(state: WaitsState, id: string, enough: Enough, seconds: number, signal: AbortSignal): Promise<OperationRow | null> {
  const { waiting } = state
  return new Promise((resolve, reject) => {
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
    // The waiter is registered before the read, so that no change between the two is missed.
    void reread(state, id)
    if (signal.aborted) waiter.stop()
  })
}

/** Reads a notified id once for all its waiters. */
async function reread({ reads, waiting, again }: WaitsState, id: string): Promise<void> {
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

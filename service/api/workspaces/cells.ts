import type { Reader } from '../../db/reader.ts'
import type { Clock } from '../../lib/clock.ts'
import { leastUsedCell, listCells } from './store.ts'

const CELL_ALIVE_MS = 60_000
const KNOWN_MS = 1000

export interface Cells {
  /**
   * null if no cell is alive: the first cell that starts takes unplaced workspaces. Uses the caller's connection, because a transaction
   * that waits for a second connection could deadlock.
   */
  choose(reads: Reader): Promise<string | null>
}

/** Caches the list of live cells for a second. */
export function openCells(clock: Clock): Cells {
  let alive: { ids: string[]; read_ms: number } | null = null
  const list = async (reads: Reader) => {
    const read_ms = clock.monotonic_ms()
    if (alive && read_ms - alive.read_ms < KNOWN_MS) return alive.ids
    const ids = await listCells(reads, new Date(clock.now().getTime() - CELL_ALIVE_MS))
    alive = { ids, read_ms }
    return ids
  }
  return {
    async choose(reads) {
      const ids = await list(reads)
      return ids.length > 1 ? leastUsedCell(reads, ids) : (ids[0] ?? null)
    },
  }
}

import type { Reader } from '../../db/reader.ts'
import type { Clock } from '../../lib/clock.ts'
import { leastUsedCell, listCells } from './store.ts'

const CELL_ALIVE_MS = 60_000
const KNOWN_MS = 1000

/** Chooses the computer of a new workspace. */
export interface Cells {
  /**
   * null when no cell is there at the moment: the first to come takes what has no place.
   * Reads with the caller's connection: a transaction that waited for a second one could wait for itself.
   */
  choose(reads: Reader): Promise<string | null>
}

/** The least used of the cells that are alive. Who is alive is looked up at most once a second. */
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

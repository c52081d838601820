import type { Service } from '../support/service.ts'
import type { History } from './history.ts'

const MOVES = ['freeze', 'thaw', 'hibernate', 'wake'] as const
const LOOK_MS = 500

/** Adds up what the cell counts of its parking over all its lives; what a killed one had not told yet is missing. */
export async function countMoves(service: Service, history: History, stopped: () => boolean): Promise<void> {
  let last = new Map<string, number>()
  const began = 'process_start_time_seconds'
  while (!stopped()) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    const seen = await service.metrics('cell').catch(() => null) // it may be dead just now
    if (seen === null) continue
    if (seen.get(began) !== last.get(began)) last = new Map()
    for (const move of MOVES) {
      const name = `berth_parking_moves_total{move="${move}"}`
      history.count(`move_${move}`, (seen.get(name) ?? 0) - (last.get(name) ?? 0))
    }
    last = seen
  }
}

/** A run in which nothing was parked, killed or witnessed says nothing about it. */
export function judgeCoverage(history: History): void {
  const wanted = [...MOVES.map((move) => `move_${move}`), 'testified', 'read', 'read_from_disk', 'ran']
  for (const what of wanted)
    if ((history.counts.get(what) ?? 0) === 0) history.violate('it never happened, so that nothing is proven', { what })
}

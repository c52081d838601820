import type { Service } from '../support/service.ts'
import type { History } from './history.ts'

const MOVES = ['freeze', 'thaw', 'hibernate', 'wake'] as const
const LOOK_MS = 500

/** Moves that a killed cell had not reported are missing. */
export async function countTransitions(service: Service, history: History, stopped: () => boolean): Promise<void> {
  let last = new Map<string, number>()
  const began = 'process_start_time_seconds'
  while (!stopped()) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    const seen = await service.metrics('cell').catch(() => null) // the cell may be down
    if (seen === null) continue
    if (seen.get(began) !== last.get(began)) last = new Map()
    for (const move of MOVES) {
      const name = `berth_parking_moves_total{move="${move}"}`
      history.count(`move_${move}`, (seen.get(name) ?? 0) - (last.get(name) ?? 0))
    }
    last = seen
  }
}

/** A run without parking, witnesses, reads and commands proves nothing about them. */
export function judgeCoverage(history: History): void {
  const wanted = [...MOVES.map((move) => `move_${move}`), 'testified', 'read', 'read_from_disk', 'ran']
  for (const what of wanted)
    if ((history.counts.get(what) ?? 0) === 0) history.violate('it never happened, so that nothing is proven', { what })
}

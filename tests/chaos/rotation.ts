import { execFileSync } from 'node:child_process'
import { isLong } from '../support/depth.ts'

const RUNS = 8

/** The commit's hash selects the points, so that a second run repeats them. BERTH_TEST_ROTATION repeats a printed number. */
export const rotation = Number(process.env['BERTH_TEST_ROTATION'] ?? numberOfCommit())

/** Selects an eighth of the points, at least one, and all in the long run. */
export function havingTheirTurn<T>(points: readonly T[], turn = rotation): T[] {
  if (isLong) return [...points]
  const size = Math.ceil(points.length / RUNS)
  const first = (turn * size) % points.length
  return [...points, ...points].slice(first, first + size)
}

function numberOfCommit(): number {
  try {
    const git = ['-c', 'safe.directory=*', 'rev-parse', '--short=8', 'HEAD']
    return Number.parseInt(
      execFileSync('git', git, { cwd: import.meta.dirname, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
      16,
    )
  } catch {
    return Math.floor(Date.now() / (24 * 3600 * 1000)) // a copy without git history: another number each day
  }
}

import { LIMITS } from '../../../../contract/limits.ts'
import type { ExecutionDeps } from './run.ts'
import { emptyOldResults, type ExecutionRow, readOwner } from './store.ts'

/** Empties the oldest results of an organization above its limit. One command may store 32 MiB of output and 10,000 paths for days. */
export interface BoundedResults {
  note(workspace_id: string, row: Pick<ExecutionRow, 'stdout' | 'stderr' | 'changed'>): Promise<void>
}

const BYTES_MAX = LIMITS.execution.results_bytes_per_organization_max
const STEP_BYTES = BYTES_MAX / 8
const NAMES_MAX = 10_000
const CHANGE_BYTES = 64 // in addition to its path

export function boundedResults(
  { db, log }: Pick<ExecutionDeps, 'db' | 'log'>,
  { bytes_max, step_bytes } = { bytes_max: BYTES_MAX, step_bytes: STEP_BYTES },
): BoundedResults {
  const owners = new Map<string, string>()
  /** The map is empty when a process starts, so the first result of each organization triggers a check. */
  const since = new Map<string, number>()
  const ownerOf = async (workspace_id: string): Promise<string | null> => {
    const owner = owners.get(workspace_id) ?? (await readOwner(db, workspace_id))
    if (owners.size >= NAMES_MAX) owners.clear()
    if (owner !== null) owners.set(workspace_id, owner)
    return owner
  }
  const look = async (workspace_id: string, bytes: number): Promise<void> => {
    const organization_id = await ownerOf(workspace_id)
    if (organization_id === null) return
    const written = (since.get(organization_id) ?? step_bytes) + bytes
    if (since.size >= NAMES_MAX) since.clear()
    since.set(organization_id, written < step_bytes ? written : 0)
    if (written >= step_bytes) await emptyOldResults(db, organization_id, bytes_max)
  }
  return {
    async note(workspace_id, { stdout, stderr, changed }) {
      const bytes = stdout.length + stderr.length + changed.reduce((sum, { path }) => sum + path.length + CHANGE_BYTES, 0)
      await look(workspace_id, bytes).catch((error: unknown) => {
        log.warn({ workspace_id, err: error }, 'old results of executions could not be emptied')
      })
    },
  }
}

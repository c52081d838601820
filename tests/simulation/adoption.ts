import { DeletedError } from '../engine/intentions.ts'
import type { World } from '../engine/world.ts'

/** What an adoption looks at of a history, and what it changes there. */
export interface Family {
  world: World
  workspaces: ReadonlySet<string>
  marks: ReadonlyMap<string, string>
  /** Those whose memory may be lost. */
  died: Set<string>
  told: string[]
  random(): number
}

/**
 * Has a workspace adopt a relative with the same mark: whichever of both it is afterwards, it has that mark.
 * @returns how many adoptions were asked for
 */
export async function adoptRelative({ world, workspaces, marks, died, told, random }: Family, id: string): Promise<number> {
  const mark = marks.get(id)
  const same = [...workspaces].filter((other) => other !== id && mark !== undefined && marks.get(other) === mark)
  const fork = same[Math.floor(random() * same.length)]
  if (fork === undefined) return 0
  const { observed_state, checkpoint_id, deleted_at } = await world.workspace(fork)
  const can_be = observed_state === 'running' || (observed_state === 'suspended' && checkpoint_id !== null)
  if (deleted_at !== null || !can_be) return 0
  told.push(`${id.slice(-4)} adopts ${fork.slice(-4)}`)
  if (died.has(fork)) died.add(id)
  const input = { fork_workspace_id: fork, delete_fork: random() < 0.4 }
  try {
    await world.operate(id, 'adopt', { source: fork, input })
    return 1
  } catch (error) {
    if (!isOvertaken(error) && !(error instanceof DeletedError)) throw error
    return 0
  }
}

/** A hold that is taken, or a deadlock. */
export function isOvertaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '23505' || error.code === '40P01')
}

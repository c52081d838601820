import { DeletedError } from '../engine/intentions.ts'
import type { World } from '../engine/world.ts'

export interface Family {
  world: World
  workspaces: Set<string>
  marks: ReadonlyMap<string, string>
  died: Set<string>
  told: string[]
  random(): number
}

/** The workspace's mark stays, because its relative has the same one. @returns how many adoptions were started */
export async function adoptRelative(family: Family): Promise<number> {
  const { world, died, told, random } = family
  const pairs = pairsOf(family)
  const pair = pairs[Math.floor(random() * pairs.length)]
  if (pair === undefined || !(await mayBeAdopted(world, pair.id)) || !(await mayBeAdopted(world, pair.fork))) return 0
  const { id, fork } = pair
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

export async function forkAndAdopt(family: Family, mark: () => Promise<void>): Promise<number> {
  const { world, workspaces, marks } = family
  for (const id of workspaces) {
    const { observed_state, residency, deleted_at } = await world.workspace(id)
    if (deleted_at !== null || observed_state !== 'running' || residency !== 'resident' || !marks.has(id)) continue
    const { workspace_id, operation_id } = await world.fork(id)
    workspaces.add(workspace_id)
    await world.ended(operation_id)
    await mark()
    return adoptRelative(family)
  }
  return 0
}

function pairsOf({ workspaces, marks }: Family): { id: string; fork: string }[] {
  const marked = [...workspaces].filter((id) => marks.has(id))
  return marked.flatMap((id) => marked.filter((fork) => fork !== id && marks.get(fork) === marks.get(id)).map((fork) => ({ id, fork })))
}

async function mayBeAdopted(world: World, id: string): Promise<boolean> {
  const { observed_state, checkpoint_id, deleted_at } = await world.workspace(id)
  return deleted_at === null && (observed_state === 'running' || (observed_state === 'suspended' && checkpoint_id !== null))
}

/** @returns whether another operation held the workspace first, or a deadlock occurred */
export function isOvertaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === '23505' || error.code === '40P01')
}

import type { Finding } from './doctor-checks.ts'
import type { HostFacts } from './doctor-facts.ts'
import type { StoredFacts } from './doctor-store.ts'

export const WAY_OUT =
  'POST /v1/workspaces/{id}/restore with {checkpoint_id, memory: false} starts each from its disk, without its processes; the checkpoint stays for 7 days'

export interface UnrestorableWorkspace {
  workspace_id: string
  checkpoint_id: string
  why: string
}

export function unrestorableOn({ workspaces }: StoredFacts, host: HostFacts): UnrestorableWorkspace[] {
  const refused = new Map(
    host.workspaces.flatMap(({ checkpoints }) => checkpoints.map((one) => [one.checkpoint_id, one.memory_refused ?? ''] as const)),
  )
  return workspaces.flatMap(({ id, checkpoint_id }) => {
    const why = checkpoint_id === null ? '' : (refused.get(checkpoint_id) ?? '')
    return checkpoint_id === null || why === '' ? [] : [{ workspace_id: id, checkpoint_id, why }]
  })
}

export function ofMemory(stranded: UnrestorableWorkspace[], host: HostFacts, named: (list: string[]) => string): Finding[] {
  const about = ({ workspace_id, checkpoint_id, why }: UnrestorableWorkspace) => `${workspace_id} (${why}, checkpoint ${checkpoint_id})`
  // Checkpoints of an engine that the operator refused are expected here.
  const meant = stranded.filter(({ why }) => why === 'engine_refused')
  const unwanted = stranded.filter(({ why }) => why !== 'engine_refused')
  const old = host.machines.filter(({ engine_refused }) => engine_refused === true).map(({ workspace_id }) => workspace_id)
  const of = (level: Finding['level'], text: string): Finding => ({ check: 'memory', level, text })
  return [
    ...(host.engine_refused === true
      ? [of('wrong', `Nothing can start: engines_refused names ${host.engine}, the engine that machines start with`)]
      : []),
    ...(unwanted.length > 0 ? [of('wrong', `Not restorable on this computer: ${named(unwanted.map(about))}. ${WAY_OUT}`)] : []),
    ...(meant.length > 0 ? [of('notice', `Asleep on a refused engine: ${named(meant.map(about))}. ${WAY_OUT}`)] : []),
    ...(old.length > 0
      ? [of('notice', `Running on a refused engine until they are suspended, which keeps no more than their disks: ${named(old)}`)]
      : []),
  ]
}

import type { Db } from '../../db/database.ts'
import { subjectName } from '../links/subject.ts'
import type { MachineCounters, MachineStats } from '../links/hostd.ts'
import { findSubjects } from '../machines/machines-store.ts'
import { readOnTrees } from './tree-store.ts'

/**
 * Counters with the workspace that pays for each: of a machine that is for none, and of one that no row knows, nothing is said. An execution
 * has its workspace's id. It pays for the memory of its machine, and its files are stored once, whatever a host has copied.
 */
export async function attributed(db: Db, counters: MachineCounters[]): Promise<MachineStats[]> {
  const others = counters.filter(({ subject: { kind } }) => kind !== 'workspace' && kind !== 'execution').map(({ subject }) => subject)
  const on_trees = counters.filter(({ subject: { kind } }) => kind === 'execution').map(({ subject: { id } }) => id)
  const [owners, trees] = await Promise.all([findSubjects(db, others), readOnTrees(db, on_trees)])
  return counters.flatMap(({ subject, ...read }) => {
    if (subject.kind === 'execution') {
      const tree = trees.get(subject.id)
      return tree === undefined ? [] : [{ workspace_id: subject.id, ...read, ...tree }]
    }
    const workspace_id = subject.kind === 'workspace' ? subject.id : (owners.get(subjectName(subject)) ?? null)
    return workspace_id === null ? [] : [{ workspace_id, ...read }]
  })
}

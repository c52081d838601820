import type { MachineCounters } from '../../../contract/internal/host-inventory.ts'
import type { Db } from '../../db/database.ts'
import { subjectName } from '../host/subject.ts'
import type { MachineStats } from '../host/hostd.ts'
import { findSubjects } from './subjects-store.ts'
import { readOnTrees } from './tree-store.ts'

/** An execution has its workspace's id. The workspace is charged for its memory, and once for its files, however many copies a host has. */
export async function attributeToWorkspaces(db: Db, counters: MachineCounters[]): Promise<MachineStats[]> {
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

import type { Db } from '../../db/database.ts'
import { isWorkspace, subjectName } from '../links/subject.ts'
import type { MachineCounters, MachineStats } from '../links/hostd.ts'
import { findSubjects } from '../machines/machines-store.ts'

/** Counters with the workspace that pays for each: of a machine that is for none, and of one that no row knows, nothing is said. */
export async function attributed(db: Db, counters: MachineCounters[]): Promise<MachineStats[]> {
  const others = counters.filter((one) => !isWorkspace(one)).map(({ subject }) => subject)
  const owners = await findSubjects(db, others)
  return counters.flatMap(({ subject, ...read }) => {
    const workspace_id = subject.kind === 'workspace' ? subject.id : (owners.get(subjectName(subject)) ?? null)
    return workspace_id === null ? [] : [{ workspace_id, ...read }]
  })
}

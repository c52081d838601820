import { isWorkspace, subjectName } from '../links/subject.ts'
import type { Inventory } from '../links/hostd.ts'
import { findSubjects } from './machines-store.ts'
import { guarded, mayRemove, report, type Sweep } from './sweep.ts'

/**
 * Deletes what the host holds of executions, builds and test instances that no row of `machines` names. A row is there before its machine
 * is and until its machine is gone, and the rows are read after the inventory: what has none belongs to nobody. Nothing of it is kept, in
 * quarantine or elsewhere: what such a machine was made for is in the database and among the layers, or has to be made again.
 */
export async function sweepOtherKinds(sweep: Sweep, { machines, files }: Inventory): Promise<void> {
  const found = [...machines, ...files].filter((one) => !isWorkspace(one)).map(({ subject }) => subject)
  const unique = [...new Map(found.map((subject) => [subjectName(subject), subject])).values()]
  const known = await findSubjects(sweep.db, unique)
  for (const subject of unique) {
    const name = subjectName(subject)
    if (known.has(name)) continue
    if (!mayRemove(sweep)) return
    await guarded(sweep, name, async () => {
      const { operation_id, fence } = sweep
      await sweep.host.deleteSubject({ subject, operation_id, step: 'sweep-delete', epoch: 0, fence })
      report(sweep, 'subject_deleted', `${name}: deleted what was left of it`)
    })
  }
}

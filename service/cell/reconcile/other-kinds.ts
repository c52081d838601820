import { buildSubject, isWorkspace, subjectName } from '../host/subject.ts'
import { LIMITS } from '../../../contract/limits.ts'
import type { Inventory } from '../../../contract/internal/host-inventory.ts'
import type { Subject } from '../../../contract/internal/host-subject.ts'
import { dropEndedMachine, listEndedMachines } from '../operations/builds/machine-store.ts'
import { expireEndedCaptures } from '../operations/builds/store.ts'
import { readRunOn } from '../filetree/executions/store.ts'
import { findSubjects } from '../metering/subjects-store.ts'
import { guarded, mayRemove, report, type ReconcilePass } from './reconcile-pass.ts'

/** The machine is stopped before its row is removed, which reserves its capacity. */
export async function endBuildMachines(sweep: ReconcilePass): Promise<void> {
  for (const id of await listEndedMachines(sweep.db, sweep.cell_id)) {
    await guarded(sweep, id, async () => {
      const { operation_id, fence } = sweep
      await sweep.host.deleteSubject({ subject: buildSubject(id), operation_id, step: 'sweep-ended', epoch: 0, fence })
      if (!(await dropEndedMachine(sweep.db, id, fence))) return
      sweep.room?.released()
      report(sweep, 'subject_deleted', `build ${id}: it is over, and its machine ended`)
    })
  }
  const captures = await expireEndedCaptures(sweep.db, sweep.cell_id, sweep.clock.now())
  if (captures > 0) report(sweep, 'captures_let_go', `let go of ${captures} captured disks of builds that are over`)
}

/**
 * A row of `machines` exists before its machine and until the machine is gone. Rows are read after the inventory, so a machine without a
 * row is an orphan.
 * Nothing goes to quarantine: results are in the database or the layers, or can be made again. The copy of an execution's tree is kept for
 * some hours.
 */
export async function sweepOtherKinds(sweep: ReconcilePass, { machines, files }: Inventory): Promise<void> {
  const found = [...machines, ...files].filter((one) => !isWorkspace(one)).map(({ subject }) => subject)
  const unique = [...new Map(found.map((subject) => [subjectName(subject), subject])).values()]
  const known = await findSubjects(sweep.db, unique)
  const copies = await keptCopies(sweep, unique)
  for (const subject of unique) {
    const name = subjectName(subject)
    if (known.has(name)) continue
    if (copies.has(name) && !machines.some((one) => subjectName(one.subject) === name)) {
      await guarded(sweep, name, () => dropAttempts(sweep, subject, files))
      continue
    }
    if (!mayRemove(sweep)) return
    await guarded(sweep, name, async () => {
      const { operation_id, fence } = sweep
      await sweep.host.deleteSubject({ subject, operation_id, step: 'sweep-delete', epoch: 0, fence })
      report(sweep, 'subject_deleted', `${name}: deleted what was left of it`)
    })
  }
}

async function keptCopies({ db, clock }: ReconcilePass, subjects: readonly Subject[]): Promise<Set<string>> {
  const since = new Date(clock.now().getTime() - LIMITS.execution.copy_kept_hours * 3600_000)
  const executions = subjects.filter(({ kind }) => kind === 'execution')
  const run_on = await readRunOn(db, executions.map(({ id }) => id), since) // prettier-ignore
  return new Set(executions.filter(({ id }) => run_on.has(id)).map(subjectName))
}

const ATTEMPT = /^e\d+\.\d+$/

async function dropAttempts(sweep: ReconcilePass, subject: Subject, files: Inventory['files']): Promise<void> {
  const names = files.find((one) => subjectName(one.subject) === subjectName(subject))?.disks.filter((name) => ATTEMPT.test(name)) ?? []
  if (names.length === 0) return
  const { operation_id, fence } = sweep
  await sweep.host.deleteDisks({ subject, operation_id, step: 'sweep-disks', epoch: 1, fence, names })
}

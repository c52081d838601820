import type { TemplateSettings } from '../../../contract/schemas/template-settings.ts'
import type { Db } from '../../db/database.ts'
import type { StartupState } from '../../db/column-types.ts'
import { asAttempt, endAttempt, type OpenOperation, type Outcome } from './store.ts'
import type { Tx } from '../../db/reader.ts'
import { type MachineRow, LostRace } from '../machines/machine-row-store.ts'

export type Startup = Pick<TemplateSettings, 'start' | 'services' | 'inputs'>

export async function readStartup(db: Db, workspace_id: string): Promise<Startup> {
  const { settings } = await db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .select('v.settings')
    .where('w.id', '=', workspace_id)
    .executeTakeFirstOrThrow()
  return settings as Startup // validated when the version was made
}

/** Admits tool calls, while the operation still excludes other operations. */
export async function openGate(db: Db, operation: OpenOperation, now: Date): Promise<void> {
  await asAttempt(db, operation, now, async (tx) => {
    await tx
      .updateTable('workspace_holds')
      .set({ gate: 'open' })
      .where('operation_id', '=', operation.id)
      .where('gate', '<>', 'open')
      .execute()
  })
}

export async function noteStep(db: Db, operation: OpenOperation, row: MachineRow, step: string, now: Date): Promise<void> {
  await asAttempt(db, operation, now, (tx) => write(tx, row, { state: 'running', step }, now))
}

export async function endStartup(
  db: Db,
  operation: OpenOperation,
  row: MachineRow,
  startup: StartupState,
  outcome: Outcome,
  now: Date,
): Promise<void> {
  await endAttempt(db, operation, now, outcome, (tx) => write(tx, row, startup, now))
}

async function write(tx: Tx, { id, ownership_epoch }: MachineRow, startup: StartupState, now: Date): Promise<void> {
  const { numUpdatedRows } = await tx
    .updateTable('workspaces')
    .set({ startup: JSON.stringify(startup), updated_at: now })
    .where('id', '=', id)
    .where('ownership_epoch', '=', ownership_epoch)
    .where('observed_state', '=', 'running')
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LostRace('The workspace')
}

import type { Selectable } from 'kysely'
import type { MachineVolume, Resources, StartupState } from '../../db/column-types.ts'
import type { Database } from '../../db/schema.ts'
import type { ObservedState } from '../../../contract/states/machine.ts'
import type { Db } from '../../db/database.ts'

/** Thrown when another writer has changed the row: this attempt must write nothing. */
export class LostRace extends Error {
  constructor(what: string) {
    super(`${what} has moved on`)
  }
}

export interface MachineRow {
  id: string
  organization_id: string
  key: string
  observed_state: ObservedState
  lifetime: 'persistent' | 'session'
  mode: 'processful' | 'file_first'
  ownership_epoch: number
  cell_id: string | null
  disk: string | null
  checkpoint_id: string | null
  residency: 'resident' | 'hibernated' | 'restoring'
  ceilings: Resources
  grants: Resources | null
  disk_layout: 'legacy' | 'layered'
  layers: string[]
  /** For a test instance: the draft's state whose layer the instance has not received yet. */
  unmade_state: string | null
  volumes: MachineVolume[]
  startup: StartupState | null
  deleted_at: Date | null
}

export function isHibernated({ residency }: MachineRow): boolean {
  return residency !== 'resident'
}

export const MACHINE_COLUMNS = [
  'w.organization_id',
  'w.key',
  'w.observed_state',
  'w.lifetime',
  'w.mode',
  'w.ownership_epoch',
  'w.cell_id',
  'w.disk',
  'w.disk_layout',
  'w.checkpoint_id',
  'w.ceiling_cpu_millis',
  'w.ceiling_memory_mib',
  'w.ceiling_disk_gib',
  'w.grant_cpu_millis',
  'w.grant_memory_mib',
  'w.grant_disk_gib',
  'w.residency',
  'w.deleted_at',
  'w.volumes',
  'w.startup',
  'w.draft_state_id',
  'w.state_layers',
  'v.layers',
] as const

export async function readMachineRow(db: Db, workspace_id: string): Promise<MachineRow> {
  const row = await db
    .selectFrom('workspaces as w')
    .innerJoin('template_versions as v', 'v.id', 'w.template_version_id')
    .select(['w.id', ...MACHINE_COLUMNS])
    .where('w.id', '=', workspace_id)
    .executeTakeFirst()
  if (!row) throw new LostRace('The workspace')
  return machineRow(row)
}

export function machineRow(row: Pick<Selectable<Database['workspaces']>, 'id' | ColumnOfWorkspace> & { layers: string[] }): MachineRow {
  return {
    id: row.id,
    organization_id: row.organization_id,
    key: row.key,
    observed_state: row.observed_state,
    lifetime: row.lifetime,
    mode: row.mode,
    ownership_epoch: row.ownership_epoch,
    cell_id: row.cell_id,
    disk: row.disk,
    checkpoint_id: row.checkpoint_id,
    residency: row.residency,
    ceilings: { cpu_millis: row.ceiling_cpu_millis, memory_mib: row.ceiling_memory_mib, disk_gib: row.ceiling_disk_gib },
    grants:
      row.grant_cpu_millis === null || row.grant_memory_mib === null || row.grant_disk_gib === null
        ? null
        : { cpu_millis: row.grant_cpu_millis, memory_mib: row.grant_memory_mib, disk_gib: row.grant_disk_gib },
    disk_layout: row.disk_layout,
    layers: row.state_layers ?? row.layers,
    unmade_state: row.state_layers === null ? row.draft_state_id : null,
    volumes: row.volumes,
    startup: row.startup,
    deleted_at: row.deleted_at,
  }
}

type ColumnOfWorkspace = Extract<(typeof MACHINE_COLUMNS)[number], `w.${string}`> extends `w.${infer Name}` ? Name : never

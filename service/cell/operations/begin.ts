import type { MachineEvent } from '../../../contract/states/machine.ts'
import type { Resources } from '../../db/schema.ts'
import { failpoint, type FailpointName } from '../../lib/failpoints.ts'
import { JOINED } from '../../core/operations/store.ts'
import { adopt } from './adopt.ts'
import { remove } from './delete.ts'
import { captureAhead, fork } from './fork.ts'
import type { CellContext, OperationKind } from './job.ts'
import { open } from './open.ts'
import { reset } from './reset.ts'
import { restore } from './restore.ts'
import { resume } from './resume.ts'
import { COMMITTED } from './running.ts'
import { claimAndMove } from './move-store.ts'
import { claim, moveWorkspace, readMachineRow, type MachineRow, type OpenOperation } from './store.ts'
import { layerSnapshot, snapshot } from './snapshot.ts'
import { startupRetry } from './startup.ts'
import { suspend } from './suspend.ts'
import { attach, detach } from './volumes.ts'

export interface KnownKind {
  kind: OperationKind
  /** What beginning it does to the workspace. */
  begins: MachineEvent
  /** Whether a host must have room first, which the operation waits for. */
  starts: boolean
  /** Whether it starts the machine of a running workspace anew: one that is hibernated has given its room back. */
  replaces?: true
  /** Whether the operation waits for room when this is done. */
  waits_after?: true
  before_claim?: FailpointName
  /** Promise N7 (docs/operating/promises.md): the gate knows before the claim shows, since the API answers the caller when it does. */
  shuts_gate_first?: true
  /** How many of its group may run at once: deletes have places of their own, so that nothing keeps them waiting. */
  group: 'start' | 'suspend' | 'delete'
}

/** The operation as it was claimed, and its workspace as it is with that. */
export interface Begun {
  operation: OpenOperation
  seen: MachineRow
}

const KINDS: Record<string, KnownKind> = {
  open: { kind: open, begins: 'start_admitted', starts: true, before_claim: 'open.O3', group: 'start' },
  resume: { kind: resume, begins: 'resume_admitted', starts: true, before_claim: 'resume.R2', group: 'start' },
  fork: { kind: fork, begins: 'fork_admitted', starts: true, group: 'start' },
  suspend: { kind: suspend, begins: 'suspend_begun', starts: false, group: 'suspend' },
  snapshot: { kind: snapshot, begins: 'snapshot_begun', starts: false, group: 'suspend' },
  layer_snapshot: { kind: layerSnapshot, begins: 'snapshot_begun', starts: false, group: 'suspend' },
  reset: { kind: reset, begins: 'replace_begun', starts: false, replaces: true, group: 'start' },
  restore: { kind: restore, begins: 'replace_begun', starts: false, replaces: true, group: 'start' },
  adopt: { kind: adopt, begins: 'replace_begun', starts: false, replaces: true, group: 'start' },
  volume_attach: { kind: attach, begins: 'volumes_begun', starts: false, group: 'suspend' },
  volume_detach: { kind: detach, begins: 'volumes_begun', starts: false, group: 'suspend' },
  delete: { kind: remove, begins: 'delete_begun', starts: false, before_claim: 'delete.D3', shuts_gate_first: true, group: 'delete' },
}

/** App, "Open rules" 3: the machine runs, and what failed of its start-up is run again. */
const RETRY: KnownKind = { kind: startupRetry, begins: 'startup_begun', starts: false, group: 'start' }

/** It takes a place of those that save machines. */
const AHEAD: KnownKind = { kind: captureAhead, begins: 'fork_admitted', starts: false, waits_after: true, group: 'suspend' }

/** What an operation does before it waits for room; undefined: nothing, or it is done. */
export function aheadOf({ kind, step }: OpenOperation): KnownKind | undefined {
  return kind === 'fork' && (step === null || step === JOINED) ? AHEAD : undefined
}

/** Those that a host must have room for. */
export const STARTING_KINDS: readonly string[] = Object.keys(KINDS).filter((kind) => KINDS[kind]?.starts === true)

/** How this cell does an operation; undefined for what it does not know. */
export function knownKind(operation: OpenOperation): KnownKind | undefined {
  if (operation.kind === 'open' && operation.input['startup_retry'] === true) return RETRY
  return Object.hasOwn(KINDS, operation.kind) ? KINDS[operation.kind] : undefined
}

/**
 * Takes the operation and moves its workspace, in one transaction; in one statement where both still are as they were read.
 * @param reserved room that a start takes; null for what takes none, and for a repeat, which has its reservation.
 * @param read the workspace as it was just before; without it it is read here.
 */
export async function begin(
  cell: CellContext,
  operation: OpenOperation,
  known: KnownKind,
  reserved: Resources | null,
  read?: MachineRow,
): Promise<Begun | undefined> {
  if (known.before_claim !== undefined) await failpoint(known.before_claim)
  if (known.shuts_gate_first) await cell.table.fresh(operation.workspace_id)
  const now = cell.clock.now()
  const taking = { operation_id: operation.id, cell_id: cell.cell_id, now, reserved }
  const changesOf = (seen: MachineRow) => ({ pending_reason: null, cell_id: seen.cell_id ?? cell.cell_id })
  if (read !== undefined && operation.step !== COMMITTED) {
    const begun = await claimAndMove(cell.db, operation, taking, { seen: read, event: known.begins, changes: changesOf(read) })
    if (begun) return begun
  }
  return cell.db.transaction().execute(async (tx) => {
    const claimed = await claim(tx, taking)
    if (!claimed) return undefined
    const seen = read ?? (await readMachineRow(tx, claimed.workspace_id))
    if (claimed.step === COMMITTED) return { operation: claimed, seen }
    return { operation: claimed, seen: await moveWorkspace(tx, seen, known.begins, now, changesOf(seen)) }
  })
}

import type { MachineEvent } from '../../../contract/states/machine.ts'
import { OPERATION_KINDS } from '../../../contract/states/operation.ts'
import type { Resources } from '../../db/column-types.ts'
import { failpoint, type FailpointName } from '../../lib/failpoints.ts'
import { WAITS_FOR_CAPTURE } from '../../core/workspaces/operations/store.ts'
import { adopt } from './adopt.ts'
import { remove } from './delete.ts'
import { preCapture, fork } from './fork.ts'
import type { CellContext, OperationKind } from './job.ts'
import { open } from './open.ts'
import { reset } from './reset.ts'
import { restore } from './restore.ts'
import { resume } from './resume.ts'
import { COMMITTED } from './running.ts'
import { claimAndMove } from './move-store.ts'
import { claim, moveWorkspace, type OpenOperation } from './store.ts'
import { readMachineRow, type MachineRow } from '../machines/machine-row-store.ts'
import { layerSnapshot, snapshot } from './snapshot.ts'
import { startupRetry } from './startup.ts'
import { suspend } from './suspend.ts'
import { attach, detach } from './volumes.ts'

export interface KnownKind {
  kind: OperationKind
  begins: MachineEvent
  /** The operation first waits for capacity. */
  starts: boolean
  /** The operation replaces the machine. A hibernated workspace has released its memory, so the operation must reserve it again. */
  replaces?: true
  waits_after?: true
  before_claim?: FailpointName
  /**
   * Admission closes before the claim is visible, because the API answers its caller as soon as it is (promise N7,
   * docs/operating/promises.md).
   */
  shuts_gate_first?: true
  /** The limit of concurrent jobs that applies. Deletes have their own limit, so that no other operation delays them. */
  group: 'start' | 'suspend' | 'delete'
}

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

/** A retry resumes the start-up at the failed step (App, "Open rules" 3). */
const RETRY: KnownKind = { kind: startupRetry, begins: 'startup_begun', starts: false, group: 'start' }

/** The capture of a fork before its wait for capacity. It saves a machine, so the limit of suspends applies. */
const PRE_CAPTURE: KnownKind = { kind: preCapture, begins: 'fork_admitted', starts: false, waits_after: true, group: 'suspend' }

/** @returns undefined if the operation needs no capture before its wait, or has made it */
export function preCaptureOf({ kind, step }: OpenOperation): KnownKind | undefined {
  return kind === 'fork' && (step === null || step === WAITS_FOR_CAPTURE) ? PRE_CAPTURE : undefined
}

export const STARTING_KINDS = OPERATION_KINDS.filter((kind) => KINDS[kind]?.starts === true)

export function knownKind(operation: OpenOperation): KnownKind | undefined {
  if (operation.kind === 'open' && operation.input['startup_retry'] === true) return RETRY
  return Object.hasOwn(KINDS, operation.kind) ? KINDS[operation.kind] : undefined
}

/**
 * Claims the operation and moves the workspace, in one statement if both rows are unchanged since they were read.
 * @param reserved null: the kind reserves no capacity, or a retry still has its reservation
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

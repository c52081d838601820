import { setTimeout } from 'node:timers/promises'
import type { VolumeHeader } from '../../../../contract/internal/host-subject.ts'
import type { OperationError } from '../../../db/column-types.ts'
import { failpoint } from '../../../lib/failpoints.ts'
import { HostFailure } from '../../host/hostd.ts'
import { volumeSubject } from '../../host/subject.ts'
import { INTERRUPTED, operationError } from '../errors.ts'
import type { CellContext } from '../job.ts'
import type { OtherOperation } from '../queue-store.ts'
import { claim, endAttempt, type OpenOperation } from '../store.ts'
import { dropAttachmentsOf, moveVolume, placeVolume, readOwnVolume } from './store.ts'

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 1000
/** After this many attempts the volume fails. A failed volume can be deleted. */
const ATTEMPTS_MAX = 6

/** @returns undefined for an operation that this cell does not support */
export function volumeWork({ subject_kind, kind }: OtherOperation): ((work: VolumeWork) => Promise<void>) | undefined {
  if (subject_kind !== 'volume') return undefined
  return kind === 'volume_create' ? create : kind === 'volume_delete' ? remove : undefined
}

export interface VolumeWork {
  cell: CellContext
  operation: OpenOperation
  volume_id: string
  signal: AbortSignal
}

/** Continues from any point. Rejects if a later pass must continue the operation. */
export async function workOnVolume(cell: CellContext, other: OtherOperation, signal: AbortSignal): Promise<void> {
  const work = volumeWork(other)
  if (work === undefined) throw new Error(`there is no such operation of a volume: ${other.kind}`)
  const taking = { operation_id: other.id, cell_id: cell.cell_id, now: cell.clock.now(), reserved: null }
  const operation = await cell.db.transaction().execute((tx) => claim(tx, taking))
  if (operation === undefined) return
  await placeVolume(cell.db, other.subject_id, cell.cell_id)
  await work({ cell, operation, volume_id: other.subject_id, signal })
}

/** Uses or replaces the data of an earlier attempt. A volume that is only partly made can never be attached. */
async function create(work: VolumeWork): Promise<void> {
  const { cell, operation, volume_id } = work
  const volume = await readOwnVolume(cell.db, volume_id)
  if (volume === undefined) throw new Error(`volume ${volume_id} is gone before it was made`)
  await failpoint('volume_create.V2')
  const make = () => ask(work, 'create', (fence) => cell.host.createVolume({ ...fence, quota_gib: volume.quota_gib }))
  const error = operation.attempt > ATTEMPTS_MAX ? INTERRUPTED : await refusalOf(make)
  await failpoint('volume_create.V4')
  const now = cell.clock.now()
  const outcome = error === null ? ({ state: 'succeeded', result: { volume_id } } as const) : ({ state: 'failed', error } as const)
  await endAttempt(cell.db, operation, now, outcome, (tx) =>
    moveVolume(tx, volume_id, 'creating', error === null ? 'available' : 'failed', now),
  )
}

/** The deletion is never undone, because the API has acknowledged it. */
async function remove(work: VolumeWork): Promise<void> {
  const { cell, operation, volume_id } = work
  await failpoint('volume_delete.W3')
  await ask(work, 'delete', (fence) => cell.host.deleteVolume(fence))
  await failpoint('volume_delete.W4')
  const now = cell.clock.now()
  await endAttempt(cell.db, operation, now, { state: 'succeeded', result: { volume_id } }, async (tx) => {
    await dropAttachmentsOf(tx, volume_id)
    await moveVolume(tx, volume_id, 'deleting', 'deleted', now)
  })
}

async function ask(work: VolumeWork, step: string, verb: (fence: VolumeHeader) => Promise<void>): Promise<void> {
  const { operation, volume_id, signal } = work
  for (let wait_ms = RETRY_MS_MIN; ; wait_ms = Math.min(wait_ms * 2, RETRY_MS_MAX)) {
    signal.throwIfAborted()
    try {
      return await verb({ subject: volumeSubject(volume_id), operation_id: operation.id, step, epoch: 0, fence: operation.fence })
    } catch (error) {
      if (!(error instanceof HostFailure) || error.code !== 'unreachable') throw error
      await setTimeout(wait_ms, undefined, { signal })
    }
  }
}

async function refusalOf(step: () => Promise<void>): Promise<OperationError | null> {
  try {
    await step()
    return null
  } catch (error) {
    if (!(error instanceof HostFailure) || error.code === 'fenced') throw error
    const message = error.code === 'no_space' ? 'The disk pool of the host is full' : 'The host could not make the volume'
    return operationError('dependency_failed', message, { reason: error.code })
  }
}

import type { Reader } from '../../../db/reader.ts'
import type { Principal } from '../../../http/call.ts'
import type { CommandResult } from '../../calls/idempotency/change.ts'
import { readOperation } from '../operations/store.ts'
import { operationView } from '../operations/view.ts'
import { readVolume } from './store.ts'
import { volumeView } from './view.ts'

export interface VolumeCommandResult extends CommandResult {
  volume_id: string
  operation_id: string
}

export function workedOnVolume(
  { id, organization_id, project_id }: { id: string; organization_id: string; project_id: string },
  operation_id: string,
  changed: boolean,
): VolumeCommandResult {
  const scope = { organization_id, project_id }
  const subject = changed ? ({ kind: 'volume', id } as const) : null
  return { status: 202, scope, workspace_id: null, operation_id, volume_id: id, changed: subject }
}

export function volumeAndOperationBody(who: Principal) {
  return async (reads: Reader, { volume_id, operation_id }: VolumeCommandResult) => {
    const [volume, operation] = await Promise.all([readVolume(reads, volume_id), readOperation(reads, operation_id)])
    if (volume === null || operation === null) throw new Error('a volume or its operation is gone that a change has just named')
    return { volume: volumeView(who, volume), operation: operationView(operation) }
  }
}

import { MEMORY_REFUSALS, type MemoryRefusal } from '../../../contract/errors.ts'
import type { HostFailure } from './hostd.ts'
import { parseSubject } from './hostd-shapes.ts'

export interface RefusedMemory {
  why: MemoryRefusal
  because: string
  workspace_id: string
  checkpoint_id: string
  without_memory: boolean
  /** For `processor`: the features that this processor lacks, if the host knows them. */
  missing_features?: string[]
}

const BECAUSE: Record<MemoryRefusal, string> = {
  service_version: 'it was written by another version of the service',
  engine_refused: 'the engine that it needs may not be used any more',
  processor: 'the processor that it was written on can do what this one cannot',
  agent_protocol: 'it was written by too old a version of the service',
  engine_not_kept: 'the engine that it needs is not on its host',
  damaged: 'it is damaged',
}

export const WAY_OUT = 'its disk can be started without it, by a restore with memory: false'

/** undefined: the host failed for another reason. */
export function refusedMemory({ details }: HostFailure): RefusedMemory | undefined {
  const { why, checkpoint_id, disk_is_whole } = details
  const subject = parseSubject(details.subject)
  const known = MEMORY_REFUSALS.find((each) => each === why)
  if (known === undefined || subject === undefined || typeof checkpoint_id !== 'string') return undefined
  const told = { why: known, because: because(known), workspace_id: subject.id, checkpoint_id, without_memory: disk_is_whole === true }
  const { missing_features } = details
  const are_named = Array.isArray(missing_features) && missing_features.every((each) => typeof each === 'string')
  return are_named ? { ...told, missing_features } : told
}

export function because(why: MemoryRefusal): string {
  return BECAUSE[why]
}

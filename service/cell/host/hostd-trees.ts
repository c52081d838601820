import type { CommandHeader } from './hostd.ts'
import type { Subject } from './subject.ts'

/** Updates the host's copy of a subject's tree; machine/internal/wire/tree.go has the entries. */
export interface TreeApplyRequest extends CommandHeader {
  /** The tree of the present copy; absent: the copy is made from scratch. */
  from?: string
  to: string
  layers: readonly string[]
  disk_gib: number
}

export interface TreeChangesRequest {
  subject: Subject
  disk: string
  layers: readonly string[]
  tree: boolean
  bytes_max: number
  entries_max: number
}

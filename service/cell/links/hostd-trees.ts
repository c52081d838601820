import type { Fence } from './hostd.ts'
import type { Subject } from './subject.ts'

/** Updates the host's copy of a subject's tree; machine/internal/wire/tree.go has the entries. */
export interface TreeApplyRequest extends Fence {
  /** The tree of the present copy; absent: the copy is made from scratch. */
  from?: string
  to: string
  layers: readonly string[]
  disk_gib: number
}

/** The changes of a machine to the tree that it started with. */
export interface TreeChangesRequest {
  subject: Subject
  disk: string
  layers: readonly string[]
  /** Whether it started with a tree. */
  tree: boolean
  bytes_max: number
  entries_max: number
}

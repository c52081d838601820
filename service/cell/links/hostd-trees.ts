import type { Fence } from './hostd.ts'
import type { Subject } from './subject.ts'

/** The copy of a tree that a host has for a subject moves on; machine/internal/wire/tree.go has the entries. */
export interface TreeApplyRequest extends Fence {
  /** Of the copy that they are applied to; absent: it is made anew. */
  from?: string
  to: string
  layers: readonly string[]
  disk_gib: number
}

/** What a machine has changed of the tree that it began with. */
export interface TreeChangesRequest {
  subject: Subject
  disk: string
  layers: readonly string[]
  /** It began with one. */
  tree: boolean
  bytes_max: number
  entries_max: number
}

import type { Change } from '../../../contract/internal/agent-files.ts'
import type { Changes } from '../../../contract/schemas/cell/change.ts'

// Parameters of the agent's calls, in the query. Bodies are in contract/internal.

export interface ChangesFilter {
  path_prefix?: string
  limit: number
  cursor?: string
  hash: boolean
  summary: boolean
  /** From this number of new files on, the agent omits their facts, which the disk reader then reads. */
  on_disk_from?: number
}

/** A change whose facts are on the disk has no size and mode. */
export type ChangesFound = Omit<Changes, 'data'> & { data: Change[] }

/** Set `cursor` and `recursive` only if the caller requests them: agents before protocol 7 do not support them. */
export interface ListAsked {
  limit: number
  cursor?: string
  recursive?: true
}

export interface RunsAsked {
  state?: 'running' | 'ended'
  limit: number
  cursor?: string
}

export interface WriteOptions {
  append?: boolean
  mode?: string
  create_parents?: boolean
}

export interface TarOptions {
  create_parents: boolean
  links_out: boolean
}

import type { FileSearch } from '../../../contract/schemas/cell/search.ts'

export interface ChangesFilter {
  path_prefix?: string
  limit: number
  cursor?: string
  hash: boolean
  summary: boolean
}

/** What an agent of before protocol 7 does not know is there only where it was asked for. */
export interface ListAsked {
  limit: number
  cursor?: string
  recursive?: true
}
export type SearchAsked = Required<Omit<FileSearch, 'cursor'>> & Pick<FileSearch, 'cursor'>

export interface WriteOptions {
  append?: boolean
  mode?: string
  create_parents?: boolean
}

export interface TarOptions {
  create_parents: boolean
  links_out: boolean
}

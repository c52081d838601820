import type { Digest } from './blobs.ts'

export interface PageRef {
  digest: Digest
  names: number
  entries: number
  bytes: number
}

export interface FileEntry {
  type: 'file'
  mode: number
  modified_ms: number
  size: number
  /** The digest of the content, or of the list of its chunks. */
  content: Digest
  /** null: the file is too large to have a revision. */
  sha256: Digest | null
}

export interface DirectoryEntry {
  type: 'directory'
  mode: number
  modified_ms: number
  /** null: the directory is empty. */
  page: PageRef | null
}

export interface LinkEntry {
  type: 'symlink'
  modified_ms: number
  target: string
}

export type Entry = FileEntry | DirectoryEntry | LinkEntry

export function weightOf(entry: Entry): { entries: number; bytes: number } {
  switch (entry.type) {
    case 'file':
      return { entries: 1, bytes: entry.size }
    case 'directory':
      return { entries: 1 + (entry.page?.entries ?? 0), bytes: entry.page?.bytes ?? 0 }
    case 'symlink':
      return { entries: 1, bytes: Buffer.byteLength(entry.target) }
  }
}

/** One character for each byte of the UTF-8 form, so that strings compare in the order of the tree. */
export function bytesOf(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1')
}

export function nameOf(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

/** The names from the root to an entry. An empty list is the root. */
export type TreePath = readonly string[]

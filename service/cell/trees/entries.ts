import type { Digest } from './blobs.ts'

/** A stored page of a directory, with what all below it comes to: nothing has to be read to know how large a tree is. */
export interface PageRef {
  digest: Digest
  /** Names of the directory that stand in this page and below it. */
  names: number
  /** Entries in all, those of directories below included. */
  entries: number
  /** Bytes of files, likewise. */
  bytes: number
}

export interface FileEntry {
  type: 'file'
  mode: number
  modified_ms: number
  size: number
  /** Of the content, or of the list of its chunks. */
  content: Digest
  /** Of the whole content; null where it is too large for a revision. */
  sha256: Digest | null
}

export interface DirectoryEntry {
  type: 'directory'
  mode: number
  modified_ms: number
  /** null: it is empty. */
  page: PageRef | null
}

export interface LinkEntry {
  type: 'symlink'
  modified_ms: number
  target: string
}

export type Entry = FileEntry | DirectoryEntry | LinkEntry

/** What an entry adds to the directories above it. */
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

/**
 * A name as the tree orders it: each byte of its UTF-8 is one character. Comparing two of them compares bytes, and cutting one never
 * cuts a character into two that are none.
 */
export function bytesOf(name: string): string {
  return Buffer.from(name, 'utf8').toString('latin1')
}

export function nameOf(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString('utf8')
}

/** Names from the tree's root down; of none: the root. */
export type TreePath = readonly string[]

import type { FileInfo } from '../../../../contract/schemas/cell/file.ts'
import { LIMITS } from '../../../../contract/limits.ts'
import { fail, type Failure } from '../../../lib/fail.ts'
import type { DirectoryEntry, Entry } from '../trees/entries.ts'
import type { PageReads } from '../trees/pages.ts'
import { leavesTree, type Resolved, resolvePath, splitPath, TREE_ROOT } from '../trees/paths.ts'

/** Cell, "File-first rules" 5: a missing path is 404 for a read, 422 for a change. */
export type Purpose = 'read' | 'change'

export type Found = Extract<Resolved, { kind: 'found' }>
export type Missing = Extract<Resolved, { kind: 'missing' | 'no_parent' }>

export function found(resolved: Resolved, path: string, purpose: Purpose): Found {
  if (resolved.kind === 'found') return resolved
  throw refusalOf(resolved, path, purpose)
}

export function foundOrFree(resolved: Resolved, path: string): Found | Missing {
  if (resolved.kind === 'found' || resolved.kind === 'missing') return resolved
  throw refusalOf(resolved, path, 'change')
}

export function refusalOf({ kind }: Exclude<Resolved, { kind: 'found' }>, path: string, purpose: Purpose): Failure {
  switch (kind) {
    case 'missing':
    case 'no_parent':
      return notThere(path)
    case 'not_a_directory':
      return notADirectory(path)
    case 'unresolvable':
      return unresolvable(path)
    case 'outside': {
      const details = { tree_root: TREE_ROOT }
      const message = `Only paths below ${TREE_ROOT} exist in a file-first workspace`
      return purpose === 'read'
        ? fail('not_found', 'outside_tree_root', message, { details })
        : fail('validation_failed', 'outside_tree_root', message, { details })
    }
  }
}

export function notThere(path: string): Failure {
  return fail('not_found', 'path_not_found', 'There is no such path', { details: { path } })
}

export function notADirectory(path: string): Failure {
  return fail('conflict', 'not_a_directory', 'A part of the path is not a directory', { details: { path } })
}

export function notAFile(path: string, entry: Entry): Failure {
  const message = entry.type === 'directory' ? 'The path is a directory' : 'The path is not a regular file'
  return fail('conflict', 'not_a_file', message, { details: { path } })
}

export function unresolvable(path: string): Failure {
  return fail('validation_failed', 'invalid_path', 'The path cannot be resolved', { details: { path } })
}

export function alreadyExists(path: string): Failure {
  return fail('conflict', 'already_exists', 'The path exists', { details: { path } })
}

export function notEmpty(path: string): Failure {
  return fail('conflict', 'not_empty', 'The directory is not empty', { details: { path } })
}

/** Precedes any other check of the request. */
export function checkInside(path: string, purpose: Purpose): string {
  if (leavesTree(path)) throw refusalOf({ kind: 'outside' }, path, purpose)
  return path
}

export async function resolveEntry(
  seen: PageReads & { root: DirectoryEntry },
  path: string,
  { follow }: { follow: boolean },
): Promise<Resolved> {
  const { directory, name } = splitPath(path)
  if (name !== '' && name !== '.' && name !== '..') return resolvePath(seen, seen.root, `${directory}${name}`, { follow })
  const { kind } = await resolvePath(seen, seen.root, path, { follow: true })
  if (kind === 'outside') return { kind }
  throw fail('validation_failed', 'invalid_path', 'The path names no entry of a directory', { details: { path } })
}

export function modeOf(mode: string | undefined, otherwise: number): number {
  return mode === undefined ? otherwise : Number.parseInt(mode, 8)
}

export function infoOf(path: string, entry: Entry, { revision = false } = {}): FileInfo {
  const sha256 = revision && entry.type === 'file' && entry.size <= LIMITS.file.revision_stat_bytes_max ? entry.sha256 : null
  return {
    path,
    name: splitPath(path).name || '/',
    type: entry.type,
    size: sizeOf(entry),
    mode: (entry.type === 'symlink' ? 0o777 : entry.mode).toString(8).padStart(4, '0'),
    modified_at: new Date(entry.modified_ms).toISOString(),
    ...(sha256 === null ? {} : { revision: sha256 }),
    ...(entry.type === 'symlink' ? { target: entry.target } : {}),
  }
}

function sizeOf(entry: Entry): number {
  switch (entry.type) {
    case 'file':
      return entry.size
    case 'symlink':
      return Buffer.byteLength(entry.target)
    case 'directory':
      return 0
  }
}

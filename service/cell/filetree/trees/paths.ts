import { LIMITS } from '../../../../contract/limits.ts'
import { bytesOf, type DirectoryEntry, type Entry, type TreePath } from './entries.ts'
import { findName, type PageReads } from './pages.ts'

/** A tree contains nothing outside this directory (Cell, "File-first rules" 5). */
export const TREE_ROOT = '/home/user'

const ROOT_NAMES = ['home', 'user']
const LINKS_MAX = 40

export type Resolved =
  | { kind: 'found'; path: TreePath; entry: Entry }
  | { kind: 'missing'; path: TreePath }
  /** `path` is the path of the first missing directory, and `rest` contains the names after it. */
  | { kind: 'no_parent'; path: TreePath; rest: readonly string[]; by_link: boolean }
  | { kind: 'outside' | 'not_a_directory' | 'unresolvable' }

/** `by_link`: the name comes from a link's target, not from the caller. */
interface Pending {
  name: string
  by_link: boolean
}

/** @param follow whether a link at the end is followed; before a trailing slash it always is */
export async function resolvePath(
  reads: PageReads,
  root: DirectoryEntry,
  path: string,
  { follow }: { follow: boolean },
): Promise<Resolved> {
  const pending: Pending[] = namesOf(path, false)
  let is_directory = path.endsWith('/') || path.endsWith('/.')
  let at: string[] = [] // from the root of the imaginary machine
  let entries: Entry[] = [] // the tree's root and the entries below it, as far as `at` is inside the tree
  let links = 0
  for (let next = pending.shift(); next !== undefined; next = pending.shift()) {
    const { name, by_link } = next
    const here = entries.at(-1)
    if (here !== undefined && here.type !== 'directory') return { kind: 'not_a_directory' }
    if (name === '..') {
      at.pop()
      entries.pop()
      continue
    }
    if (here === undefined) {
      at.push(name)
      if (at.some((each, i) => each !== ROOT_NAMES[i])) return { kind: 'outside' }
      if (at.length === ROOT_NAMES.length) entries = [root]
      continue
    }
    if (Buffer.byteLength(name) > LIMITS.tree.name_bytes_max) return { kind: 'unresolvable' }
    const inside = [...at.slice(ROOT_NAMES.length), name]
    const entry = await findName(reads, here.page, bytesOf(name))
    if (entry === null) {
      if (pending.length === 0 && !path.endsWith('/.')) return { kind: 'missing', path: inside }
      return { kind: 'no_parent', path: inside, rest: pending.map((each) => each.name), by_link }
    }
    if (entry.type === 'symlink' && (follow || is_directory || pending.length > 0)) {
      links += 1
      if (links > LINKS_MAX) return { kind: 'unresolvable' }
      const { target } = entry
      if (target.startsWith('/')) [at, entries] = [[], []]
      if (pending.length === 0 && (target.endsWith('/') || target.endsWith('/.'))) is_directory = true
      pending.unshift(...namesOf(target, true))
      continue
    }
    at.push(name)
    entries.push(entry)
  }
  const entry = entries.at(-1)
  if (entry === undefined) return { kind: 'outside' }
  if (is_directory && entry.type !== 'directory') return { kind: 'not_a_directory' }
  return { kind: 'found', path: at.slice(ROOT_NAMES.length), entry }
}

/** Checks the text of the path alone. A link in the tree may also lead outside. */
export function leavesTree(path: string): boolean {
  const at: string[] = []
  for (const { name } of namesOf(path, false)) {
    if (at.length === ROOT_NAMES.length && name !== '..') return false // from here a link may lead anywhere
    if (name === '..') at.pop()
    else if (name === ROOT_NAMES[at.length]) at.push(name)
    else return true
  }
  return at.length < ROOT_NAMES.length
}

function namesOf(path: string, by_link: boolean): Pending[] {
  return path
    .split('/')
    .filter((name) => name !== '' && name !== '.')
    .map((name) => ({ name, by_link }))
}

export function splitPath(path: string): { directory: string; name: string } {
  const trimmed = path.replace(/\/+$/, '')
  const at = trimmed.lastIndexOf('/')
  return at < 0 ? { directory: '/', name: trimmed } : { directory: trimmed.slice(0, at + 1), name: trimmed.slice(at + 1) }
}

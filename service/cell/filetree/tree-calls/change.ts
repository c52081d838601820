import type { filesMkdir, filesMove, filesRemove } from '../../../../contract/routes/cell/files.ts'
import type { DirectoryEntry, Entry, TreePath } from '../trees/entries.ts'
import { isName } from '../trees/names.ts'
import { resolvePath } from '../trees/paths.ts'
import type { TreeChange } from '../trees/tree.ts'
import { checkMode, checkPath, pathOf } from '../../gateway/files/path.ts'
import { changing, type Planned, type Seen, type TreeHandler } from './calls.ts'
import {
  alreadyExists,
  checkInside,
  found,
  foundOrFree,
  infoOf,
  modeOf,
  notADirectory,
  notAFile,
  notEmpty,
  notThere,
  refusalOf,
  resolveEntry,
  unresolvable,
} from './rules.ts'

export const removeTreeFile: TreeHandler<typeof filesRemove> = (call, deps, ticket) => {
  const path = checkInside(pathOf(call.url), 'change')
  return changing(deps, ticket, call, async (seen) => {
    const { entry, path: at } = found(await resolveEntry(seen, path, { follow: false }), path, 'change')
    refuseRoot(at, path)
    if (entry.type === 'directory' && entry.page !== null && call.query.recursive !== true) throw notEmpty(path)
    return { changes: [{ kind: 'remove', path: at }], status: 204 }
  })
}

export const makeTreeDirectory: TreeHandler<typeof filesMkdir> = (call, deps, ticket) => {
  const path = checkInside(checkPath('path', call.body.path), 'change')
  const { mode } = checkMode(call.body.mode)
  const parents = call.body.parents ?? false
  return changing(deps, ticket, call, async (seen) => {
    const modified_ms = call.now.getTime()
    const directory: DirectoryEntry = { type: 'directory', mode: modeOf(mode, 0o755), modified_ms, page: null }
    const put = (at: TreePath, made: TreeChange[]): Planned => ({
      changes: [...made, { kind: 'put', path: at, entry: directory }],
      status: 201,
      body: infoOf(path, directory),
    })
    const resolved = await resolveEntry(seen, path, { follow: false })
    if (resolved.kind === 'found') {
      const target = await resolvePath(seen, seen.root, path, { follow: true })
      if (!parents || target.kind !== 'found' || target.entry.type !== 'directory') throw alreadyExists(path)
      return { changes: [], status: 201, body: infoOf(path, resolved.entry) }
    }
    if (resolved.kind === 'no_parent' && parents) {
      const { names, changes } = makeParents(resolved, path, modified_ms)
      return put(names, changes)
    }
    return put(foundOrFree(resolved, path).path, [])
  })
}

export const moveTreeFile: TreeHandler<typeof filesMove> = (call, deps, ticket) => {
  const [from, to] = [checkPath('from', call.body.from), checkPath('to', call.body.to)]
  for (const path of [from, to]) checkInside(path, 'change')
  const { overwrite = false } = call.body
  return changing(deps, ticket, call, async (seen) => {
    const [resolved_from, resolved_to] = [
      await resolveEntry(seen, from, { follow: false }),
      await resolveEntry(seen, to, { follow: false }),
    ]
    if (resolved_to.kind === 'outside') throw refusalOf(resolved_to, to, 'change')
    const source = found(resolved_from, from, 'change')
    refuseRoot(source.path, from)
    const target = foundOrFree(resolved_to, to)
    if (target.kind === 'found') checkReplaceable(source.entry, target.entry, { overwrite, to, is_same: isSame(source.path, target.path) })
    refuseRoot(target.path, to)
    const body = infoOf(to, source.entry)
    if (isSame(source.path, target.path)) return { changes: [], status: 200, body }
    if (source.path.every((name, i) => name === target.path[i])) throw unresolvable(to) // a directory cannot be moved into itself
    if (!isName(target.path.at(-1) ?? '')) throw unresolvable(to)
    return {
      changes: [
        { kind: 'remove', path: source.path },
        { kind: 'put', path: target.path, entry: source.entry },
      ],
      status: 200,
      body,
    }
  })
}

function checkReplaceable(
  source: Entry,
  target: Entry,
  { overwrite, to, is_same }: { overwrite: boolean; to: string; is_same: boolean },
): void {
  if (!overwrite) throw alreadyExists(to)
  if (is_same) return
  if (target.type === 'directory' && source.type !== 'directory') throw notAFile(to, target)
  if (source.type === 'directory' && target.type !== 'directory') throw notADirectory(to)
  if (target.type === 'directory' && target.page !== null) throw notEmpty(to)
}

function isSame(one: TreePath, other: TreePath): boolean {
  return one.length === other.length && one.every((name, i) => name === other[i])
}

function refuseRoot(at: TreePath, path: string): void {
  if (at.length === 0) throw unresolvable(path)
}

export function makeParents(
  missing: { path: TreePath; rest: readonly string[]; by_link: boolean },
  path: string,
  modified_ms: number,
): { names: TreePath; changes: TreeChange[] } {
  if (missing.by_link) throw notADirectory(path) // a dangling link occupies the name
  const entry: DirectoryEntry = { type: 'directory', mode: 0o755, modified_ms, page: null }
  const changes = new Map<string, TreeChange>()
  let at = [...missing.path]
  const make = () => {
    if (!isName(at.at(-1) ?? '')) throw unresolvable(path)
    changes.set(at.join('/'), { kind: 'put', path: at, entry })
  }
  for (const name of missing.rest) {
    make()
    at = name === '..' ? at.slice(0, -1) : [...at, name]
    if (at.length < missing.path.length) throw notThere(path) // the path leads above the missing directory, which would need another lookup
  }
  return { names: at, changes: [...changes.values()] }
}

export async function resolveForWrite(
  seen: Seen,
  path: string,
  create_parents: boolean,
  modified_ms: number,
): Promise<{ at: TreePath; made: TreeChange[]; old: Entry | null }> {
  const resolved = await resolveEntry(seen, path, { follow: true })
  if (resolved.kind === 'no_parent' && create_parents) {
    const { names, changes } = makeParents(resolved, path, modified_ms)
    return { at: names, made: changes, old: null }
  }
  if (resolved.kind === 'found') return { at: resolved.path, made: [], old: resolved.entry }
  if (resolved.kind === 'missing') return { at: resolved.path, made: [], old: null }
  throw refusalOf(resolved, path, 'change')
}

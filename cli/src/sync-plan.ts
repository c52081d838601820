import { CliError } from './command.ts'

export interface Entry {
  type: 'file' | 'directory' | 'symlink' | 'other'
  /** The nine permission bits. */
  mode: number
  bytes: number
  /** The file needs less than half its length on disk. */
  has_holes?: boolean
  /** Absent if no comparison needs the digest. */
  sha256?: string
  target?: string
}

export type Listing = ReadonlyMap<string, Entry>

export interface Plan {
  /** Deleted before the transfer, because an entry of another type replaces each. */
  replaced: string[]
  /** Parents before children. */
  made: string[]
  /** Deleted after the transfer. */
  gone: string[]
  unchanged: number
  /** Sockets, devices and other special files, which are not copied. */
  left_out: string[]
  bytes: number
}

export function planOf(from: Listing, to: Listing, { is_deleting }: { is_deleting: boolean }): Plan {
  const plan: Plan = { replaced: [], made: [], gone: [], unchanged: 0, left_out: [], bytes: 0 }
  for (const path of [...from.keys()].toSorted()) {
    const [entry, there] = [from.get(path), to.get(path)]
    if (!entry) continue
    if (entry.type === 'other') plan.left_out.push(path)
    else if (there && isSame(entry, there)) plan.unchanged += 1
    else {
      if (there && there.type !== entry.type) {
        if (there.type === 'directory' && !is_deleting && [...to.keys()].some((each) => each.startsWith(`${path}/`)))
          throw new CliError(`${path} is a folder in the target and no folder in the source; --delete replaces it`)
        plan.replaced.push(path)
      }
      plan.made.push(path)
      plan.bytes += entry.type === 'file' ? entry.bytes : 0
    }
  }
  if (!is_deleting) return plan
  const going = new Set(plan.replaced)
  for (const path of [...to.keys()].toSorted()) {
    if (from.has(path)) continue
    const is_below = going.has(parentOf(path))
    going.add(path)
    if (!is_below) plan.gone.push(path)
  }
  return plan
}

function isSame(a: Entry, b: Entry): boolean {
  if (a.type !== b.type) return false
  if (a.type === 'symlink') return a.target === b.target
  if (a.type === 'directory') return true
  return a.bytes === b.bytes && a.mode === b.mode && a.sha256 !== undefined && a.sha256 === b.sha256
}

export function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')))
}

/** The guest is untrusted: no path of its listing may lead out of the local folder. */
export function checkedListing(entries: readonly (readonly [path: string, entry: Entry])[]): Map<string, Entry> {
  const listing = new Map(entries)
  for (const [path] of entries) {
    const parts = path.split('/')
    const parent = parentOf(path)
    const is_below = parent === '' ? parts.length === 1 : listing.get(parent)?.type === 'directory'
    if (!is_below || parts.some((part) => part === '' || part === '.' || part === '..'))
      throw new CliError(`The workspace lists a path that is none of the folder: ${JSON.stringify(path)}`)
  }
  return listing
}

export function without(listing: Map<string, Entry>, excluded: readonly string[]): Map<string, Entry> {
  const names = new Set(excluded.map((each) => each.replace(/\/+$/, '')))
  if (names.size === 0) return listing
  const isKept = (path: string) => {
    const parts = path.split('/')
    return !parts.some((part, at) => names.has(part) || names.has(parts.slice(0, at + 1).join('/')))
  }
  return new Map([...listing].filter(([path]) => isKept(path)))
}

/** A single path larger than `max` is a part of its own. */
export function partsOf(paths: readonly string[], sizeOfOne: (path: string) => number, max: number): string[][] {
  const parts: string[][] = []
  let size = Infinity
  for (const at of paths) {
    const own = sizeOfOne(at)
    if (size + own > max) {
      parts.push([])
      size = 0
    }
    parts.at(-1)?.push(at)
    size += own
  }
  return parts
}

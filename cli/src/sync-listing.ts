import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError } from './command.ts'
import { checkedListing, type Entry, type Listing } from './sync-plan.ts'

/** Of the files of the workspace alone, so that every byte of a name is safe. */
const LIST = `cd "$1" 2> /dev/null || { [ -e "$1" ] && exit 45; exit 44; }
find . -mindepth 1 -printf '%y\\0%m\\0%s\\0%l\\0%P\\0' || exit 46
printf '\\0'
exec find . -type f -exec sha256sum -z -- '{}' +`
const NOT_THERE = 44
const NO_FOLDER = 45
const TYPES: Partial<Record<string, Entry['type']>> = { f: 'file', d: 'directory', l: 'symlink' }
/** Of an execution's output: as much as a listing of some 100,000 files. */
const EXECUTION_BYTES_MAX = 16 << 20

/** What lies in a folder of a workspace, with the digests of its files; null where there is no such folder. */
export async function remoteListing(ws: Workspace, folder: string): Promise<Map<string, Entry> | null> {
  const more = ws.view.mode === 'file_first' ? { output_limit_bytes: EXECUTION_BYTES_MAX } : {}
  const { exitCode, stdoutBytes, stderr, execution } = await ws.exec(['sh', '-c', LIST, 'sh', folder], more)
  if (exitCode === NOT_THERE) return null
  if (exitCode === NO_FOLDER) throw new CliError(`${folder} is no folder that may be read`)
  if (exitCode !== 0) throw new CliError(`The workspace could not list ${folder}: ${stderr.trim() || 'it needs find and sha256sum'}`)
  if (execution?.stdout_truncated) throw new CliError(`${folder} has more files than can be listed in a file-first workspace`)
  return listingOf(stdoutBytes)
}

function listingOf(bytes: Uint8Array): Map<string, Entry> {
  const fields = textOf(bytes).split('\0')
  const entries: [string, Entry][] = []
  let at = 0
  for (; fields[at] !== '' && at + 4 < fields.length; at += 5) {
    const [type = '', mode = '', size = '', target = '', name = ''] = fields.slice(at, at + 5)
    const entry: Entry = { type: TYPES[type] ?? 'other', mode: parseInt(mode, 8) & 0o777, bytes: Number(size) }
    entries.push([name, entry.type === 'symlink' ? { ...entry, target } : entry])
  }
  const listing = checkedListing(entries)
  for (const line of fields.slice(at + 1)) {
    const entry = listing.get(line.slice(68))
    if (entry && /^[0-9a-f]{64} {2}\.\/$/.test(line.slice(0, 68))) entry.sha256 = line.slice(0, 64)
  }
  return listing
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new CliError('A name in the folder of the workspace is not UTF-8, and cannot be carried')
  }
}

/** What lies in a folder here. Links are not followed. */
export async function localListing(root: string): Promise<Map<string, Entry>> {
  const listing = new Map<string, Entry>()
  const walk = async (below: string): Promise<void> => {
    for (const raw of await readdir(path.join(root, below), { encoding: 'buffer' })) {
      const name = raw.toString()
      if (!Buffer.from(name).equals(raw)) throw new CliError(`A name in ${path.join(root, below)} is not UTF-8, and cannot be carried`)
      const at = below === '' ? name : `${below}/${name}`
      const found = await lstat(path.join(root, at))
      const type = found.isFile() ? 'file' : found.isDirectory() ? 'directory' : found.isSymbolicLink() ? 'symlink' : 'other'
      const entry: Entry = { type, mode: found.mode & 0o777, bytes: found.size }
      listing.set(at, type === 'symlink' ? { ...entry, target: await readlink(path.join(root, at)) } : entry)
      if (type === 'directory') await walk(at)
    }
  }
  await walk('')
  return listing
}

/** Digests of those files here that are as long as the one at the same path there: of all others it is known that they differ. */
export async function addDigests(root: string, here: Listing, there: Listing): Promise<void> {
  for (const [at, entry] of here) {
    const other = there.get(at)
    if (entry.type !== 'file' || other?.type !== 'file' || other.bytes !== entry.bytes) continue
    const hash = createHash('sha256')
    await pipeline(createReadStream(path.join(root, at)), hash)
    entry.sha256 = hash.digest('hex')
  }
}

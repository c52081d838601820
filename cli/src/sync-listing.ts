import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { lstat, readdir, readlink } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError } from './command.ts'
import { PART } from './fetch-file.ts'
import { checkedListing, type Entry, type Listing, partsOf } from './sync-plan.ts'

/** NUL separates fields, because names may contain any other byte. */
const LIST = `cd "$1" 2> /dev/null || { [ -e "$1" ] && exit 45; exit 44; }
find . -mindepth 1 -printf '%y\\0%m\\0%s\\0%l\\0%P\\0' || exit 46
printf '\\0'
exec find . -type f -exec sha256sum -z -- '{}' +`
const NOT_THERE = 44
const NO_FOLDER = 45
const TYPES: Partial<Record<string, Entry['type']>> = { f: 'file', d: 'directory', l: 'symlink' }
/** A command's stdin is limited to 1 MiB. */
const NAMES_BYTES_MAX = 900_000
/** Prints mode and name, then digest and name. */
const LIST_NAMED = `cd "$1" 2> /dev/null || exit 0
exec xargs -0 -r sh -c 'find "$@" -maxdepth 0 -type f -printf "%m\\0%p\\0"; sha256sum -z -- "$@"' sh 2> /dev/null`
const MODE = /^[0-7]{1,4}$/
const DIGEST = /^[0-9a-f]{64} {2}\.\//
/** Enough for about 100,000 files. */
const EXECUTION_BYTES_MAX = 16 << 20

/** @returns null if the folder does not exist. */
export async function remoteListing(ws: Workspace, folder: string, signal?: AbortSignal): Promise<Map<string, Entry> | null> {
  const more = ws.view.mode === 'file_first' ? { output_limit_bytes: EXECUTION_BYTES_MAX } : {}
  const { exitCode, stdoutBytes, stderr, execution } = await ws.exec(['sh', '-c', LIST, 'sh', folder], { ...more, signal })
  if (exitCode === NOT_THERE) return null
  if (exitCode === NO_FOLDER) throw new CliError(`${folder} is no folder that may be read`)
  if (exitCode !== 0) throw new CliError(`The workspace could not list ${folder}: ${stderr.trim() || 'it needs find and sha256sum'}`)
  if (execution?.stdout_truncated) throw new CliError(`${folder} has more files than can be listed in a file-first workspace`)
  return listingOf(stdoutBytes)
}

/** @returns files that need no upload. The untrusted guest decides nothing else. */
export async function unchangedRemotely(
  ws: Workspace,
  there: string,
  here: string,
  from: Listing,
  paths: readonly string[],
): Promise<Set<string>> {
  const same = new Set<string>()
  for (const stdin of namesOf(paths)) {
    const { stdoutBytes } = await ws.exec(['sh', '-c', LIST_NAMED, 'sh', there], { stdin })
    const fields = new TextDecoder().decode(stdoutBytes).split('\0').values()
    const modes = new Map<string, number>()
    for (const field of fields) {
      const at = field.slice(68)
      if (MODE.test(field)) modes.set((fields.next().value ?? '').slice(2), parseInt(field, 8) & 0o777)
      else if (DIGEST.test(field)) {
        // Other names in the answer could be any path on this computer, so only requested files are read.
        const entry = from.get(at)
        if (entry?.type !== 'file' || modes.get(at) !== entry.mode) continue
        if (field.startsWith(await digestOf(path.join(here, at)))) same.add(at)
      }
    }
  }
  return same
}

export function namesOf(paths: readonly string[]): string[] {
  const parts = partsOf(paths, (at) => Buffer.byteLength(at) + 3, NAMES_BYTES_MAX)
  return parts.map((part) => part.map((at) => `./${at}\0`).join(''))
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
    if (entry && DIGEST.test(line)) entry.sha256 = line.slice(0, 64)
  }
  for (const path of listing.keys()) if (PART.test(path)) listing.delete(path)
  return listing
}

function textOf(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw new CliError('A name in the folder of the workspace is not UTF-8, and cannot be carried')
  }
}

export async function localListing(root: string): Promise<Map<string, Entry>> {
  const listing = new Map<string, Entry>()
  const walk = async (below: string): Promise<void> => {
    for (const raw of await readdir(path.join(root, below), { encoding: 'buffer' })) {
      const name = raw.toString()
      if (!Buffer.from(name).equals(raw)) throw new CliError(`A name in ${path.join(root, below)} is not UTF-8, and cannot be carried`)
      if (PART.test(name)) continue
      const at = below === '' ? name : `${below}/${name}`
      const found = await lstat(path.join(root, at))
      const type = found.isFile() ? 'file' : found.isDirectory() ? 'directory' : found.isSymbolicLink() ? 'symlink' : 'other'
      const entry: Entry = { type, mode: found.mode & 0o777, bytes: found.size }
      if (found.isFile() && found.blocks * 512 < found.size / 2) entry.has_holes = true
      listing.set(at, type === 'symlink' ? { ...entry, target: await readlink(path.join(root, at)) } : entry)
      if (type === 'directory') await walk(at)
    }
  }
  await walk('')
  return listing
}

/** Files of different sizes differ anyway, so only equal sizes need digests. */
export async function addDigests(root: string, here: Listing, there: Listing): Promise<void> {
  for (const [at, entry] of here) {
    const other = there.get(at)
    if (entry.type !== 'file' || other?.type !== 'file' || other.bytes !== entry.bytes) continue
    entry.sha256 = await digestOf(path.join(root, at))
  }
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}

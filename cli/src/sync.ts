import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { lstat, mkdir, rename, rm, symlink } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Context, type Run, usageError } from './command.ts'
import { placeOf } from './copy.ts'
import { fetchFile, partOf } from './fetch-file.ts'
import { oneLine } from './print.ts'
import { counted, during, type Progress, progressOf, sizeOf } from './progress.ts'
import { addDigests, localListing, remoteListing } from './sync-listing.ts'
import { type Listing, type Plan, planOf, without } from './sync-plan.ts'
import { holesOf } from './tar.ts'

/** Of one request, of which the API takes 256 MiB: what breaks off begins anew. */
const TAR_BYTES_MAX = 64 << 20
/** A larger file goes alone, in pieces that are sent again alone. */
const PACKED_BYTES_MAX = 16 << 20
/** Of the standard input of one command: 1 MiB is its bound. */
const NAMES_BYTES_MAX = 900_000
const DOWNLOADS_AT_ONCE = 8

export const sync: Run = async (context, [from = '', to = '']) => {
  const [source, target] = [placeOf(from), placeOf(to)]
  if ((source === null) === (target === null))
    throw usageError('One of both is in a workspace: WORKSPACE:/path', 'berth sync ./folder WORKSPACE:/home/user/folder')
  if (target) await push(context, from, await context.workspace(target.name), target.path)
  else if (source) await pull(context, await context.workspace(source.name), source.path, to)
  return 0
}

async function push(context: Context, here: string, ws: Workspace, there: string): Promise<void> {
  if (!(await isFolder(here))) throw new CliError(`${here} is no folder`)
  const found = await remoteListing(ws, there)
  const [from, to] = [await localListing(here), found ?? new Map<string, never>()]
  await addDigests(here, from, to)
  await carryOut(context, kept(context, from), kept(context, to), {
    remove: (paths) => removeThere(ws, there, paths),
    make: async (paths, progress) => {
      const isLarge = (at: string) => (from.get(at)?.bytes ?? 0) > PACKED_BYTES_MAX
      const packed = partsOf(
        paths.filter((at) => !isLarge(at)),
        (at) => tarBytes(at, from),
        TAR_BYTES_MAX,
      )
      for (const part of packed) await upload(ws, { here, there, paths: part }, progress)
      for (const at of paths.filter(isLarge)) await writeLarge(ws, path.join(here, at), path.posix.join(there, at), progress)
      if (found === null && paths.length === 0) await ws.files.mkdir(there, { parents: true })
    },
  })
}

async function pull(context: Context, ws: Workspace, there: string, here: string): Promise<void> {
  const from = await remoteListing(ws, there)
  if (from === null) throw new CliError(`${there} is not there`)
  await mkdir(here, { recursive: true })
  const to = await localListing(here)
  await addDigests(here, to, from)
  await carryOut(context, kept(context, from), kept(context, to), {
    remove: async (paths) => {
      for (const at of paths) await rm(path.join(here, at), { recursive: true, force: true })
    },
    make: (paths, progress) => download(ws, { here, there, from, paths }, progress),
  })
}

interface Means {
  remove(paths: readonly string[]): Promise<void>
  make(paths: readonly string[], progress: Progress): Promise<void>
}

async function carryOut({ flags, json, say, print }: Context, from: Listing, to: Listing, { remove, make }: Means): Promise<void> {
  const plan = planOf(from, to, { is_deleting: flags['delete'] === true })
  if (flags['dry-run'] !== true) {
    await remove(plan.replaced)
    await during(progressOf(`${plan.made.length} to carry`, plan.bytes, { json }), (progress) => make(plan.made, progress))
    await remove(plan.gone)
  } else if (!json) for (const line of linesOf(plan)) print(line)
  if (json) return print(plan)
  for (const at of plan.left_out) say(`Left out: ${oneLine(at)}`)
  say(`${plan.made.length} carried (${sizeOf(plan.bytes)}), ${plan.gone.length} deleted, ${plan.unchanged} as before`)
}

function linesOf({ made, replaced, gone }: Plan): string[] {
  return [...replaced.map((at) => `- ${oneLine(at)}`), ...made.map((at) => `+ ${oneLine(at)}`), ...gone.map((at) => `- ${oneLine(at)}`)]
}

function kept({ flags }: Context, listing: Map<string, never> | Parameters<typeof without>[0]): Listing {
  return without(listing, (flags['exclude'] as unknown as string[] | undefined) ?? [])
}

async function upload(
  ws: Workspace,
  { here, there, paths }: { here: string; there: string; paths: readonly string[] },
  progress: Progress,
): Promise<void> {
  const { writes } = await holesOf()
  const tar = spawn('tar', [...writes, '-C', here, '--no-recursion', '--null', '-T', '-', '-cf', '-'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(tar, 'close') as Promise<[number | null]>
  tar.stdin.on('error', () => undefined).end(paths.map((at) => `./${at}\0`).join('')) // its exit code tells
  const stream = counted(Readable.toWeb(tar.stdout) as ReadableStream<Uint8Array>, progress)
  await ws.files.writeTar(there, stream, { create_parents: true, links_out: true })
  const [code] = await ended
  if (code !== 0) throw new CliError(`tar ended with ${code ?? 'a signal'}`)
}

async function writeLarge(ws: Workspace, here: string, there: string, progress: Progress): Promise<void> {
  const { mode } = await lstat(here)
  const stream = counted(Readable.toWeb(createReadStream(here)) as ReadableStream<Uint8Array>, progress)
  await ws.files.write(there, stream, { mode: (mode & 0o777).toString(8).padStart(4, '0'), create_parents: true })
}

async function removeThere(ws: Workspace, there: string, paths: readonly string[]): Promise<void> {
  for (const part of partsOf(paths, (at) => Buffer.byteLength(at) + 3, NAMES_BYTES_MAX)) {
    const stdin = part.map((at) => `./${at}\0`).join('')
    const { ok, stderr } = await ws.exec(['sh', '-c', 'cd "$1" && exec xargs -0 rm -rf --', 'sh', there], { stdin })
    if (!ok) throw new CliError(`The workspace could not delete: ${stderr.trim()}`)
  }
}

interface Downloaded {
  here: string
  there: string
  from: Listing
  paths: readonly string[]
}

/** Folders first, then files side by side, each whole or as it was. */
async function download(ws: Workspace, { here, there, from, paths }: Downloaded, progress: Progress): Promise<void> {
  const files: string[] = []
  for (const at of paths) {
    const entry = from.get(at)
    // What may be done with a folder here is its owner's matter: one that could not be written to could not be filled.
    if (entry?.type === 'directory') await mkdir(path.join(here, at), { mode: entry.mode | 0o700 })
    else if (entry?.type === 'symlink') await link(entry.target ?? '', path.join(here, at))
    else files.push(at)
  }
  const left = files.values()
  const one = async () => {
    for (const at of left) await fetchFile(ws, path.posix.join(there, at), path.join(here, at), from.get(at)?.mode ?? 0o600, progress)
  }
  await Promise.all(Array.from({ length: DOWNLOADS_AT_ONCE }, one))
}

async function link(target: string, at: string): Promise<void> {
  const beside = partOf(at)
  await symlink(target, beside)
  await rename(beside, at)
}

function tarBytes(at: string, listing: Listing): number {
  return 1024 + Buffer.byteLength(at) + (listing.get(at)?.bytes ?? 0)
}

/** In order, each of at most so much, or of one. */
function partsOf(paths: readonly string[], sizeOfOne: (path: string) => number, max: number): string[][] {
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

async function isFolder(at: string): Promise<boolean> {
  return lstat(`${at}/`).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

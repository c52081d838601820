import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, lstat, mkdir, readdir, rename, rm, symlink } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError } from './command.ts'
import { fetchFile, partOf } from './fetch-file.ts'
import { during, type Progress } from './progress.ts'
import { addDigests, localListing, remoteListing } from './sync-listing.ts'
import { planOf } from './sync-plan.ts'
import { holesOf } from './tar.ts'
import { untilSignal } from './until-signal.ts'
import type { Transfer } from './upload-folder.ts'

/** tar would continue after these errors and leave partial files, so it is killed. */
const DISK_FULL = /No space left on device|Disk quota exceeded|Wrote only \d+ of/
const SAID_CHARACTERS_MAX = 2000
const DOWNLOADS_AT_ONCE = 8

/** Downloads into a staging directory, so that a full disk changes nothing in the target. */
export async function downloadFolder(ws: Workspace, there: string, here: string, shown: (total: number | null) => Progress): Promise<void> {
  await mkdir(here, { recursive: true })
  const beside = partOf(path.join(here, 'all'))
  await mkdir(beside, { mode: 0o700 })
  await untilSignal(async (signal) => {
    try {
      await during(shown(null), async (progress) => {
        if (!(await unpackTar(ws, { there, here: beside }, signal, progress)))
          await downloadMissing(ws, { there, here: beside }, signal, progress)
      })
      signal.throwIfAborted()
      await moveInto(beside, here)
    } finally {
      // Retries, because tasks that still run may create a file here.
      await rm(beside, { recursive: true, force: true, maxRetries: 5 })
    }
  })
}

interface Folders {
  there: string
  here: string
}

/** @returns false if the tar ended early. Received files are kept. */
async function unpackTar(ws: Workspace, { there, here }: Folders, signal: AbortSignal, progress: Progress): Promise<boolean> {
  const { reads } = await holesOf()
  const reader = (await ws.files.readTar(there, { sparse: reads, signal })).getReader()
  const env = { ...process.env, LANGUAGE: 'en' } // English messages, because DISK_FULL matches them
  // As root, tar would restore setuid bits, and a program of the guest could run as root on this computer.
  const words = ['-C', here, '--no-same-owner', '--no-same-permissions', '-xf', '-']
  const tar = spawn('tar', words, { stdio: ['pipe', 'ignore', 'pipe'], env })
  const ended = once(tar, 'close') as Promise<[number | null]>
  ended.catch(() => undefined) // awaited after the pipeline
  let said = ''
  tar.stderr.on('data', (bytes: Buffer) => {
    if (said.length < SAID_CHARACTERS_MAX) said += bytes.toString()
    if (DISK_FULL.test(said)) tar.kill()
  })
  let is_whole = false as boolean
  const coming = async function* () {
    try {
      for (let next = await reader.read(); !next.done; next = await reader.read()) {
        progress.add(next.value.length)
        yield next.value
      }
      is_whole = true
    } catch {
    } finally {
      await reader.cancel().catch(() => undefined) // the stream may have failed before
    }
  }
  await pipeline(Readable.from(coming()), tar.stdin).catch(() => undefined) // tar may exit early; its exit code is checked below
  const [code] = await ended
  signal.throwIfAborted()
  if (DISK_FULL.test(said)) throw new CliError('The disk is full here, and the folder is as it was')
  if (is_whole && code !== 0) throw new CliError(`tar could not unpack it: ${said.trim().split('\n')[0] ?? ''}`)
  return is_whole
}

/** Downloads what the tar did not deliver. Each interrupted file resumes. */
async function downloadMissing(ws: Workspace, { there, here }: Folders, signal: AbortSignal, progress: Progress): Promise<void> {
  const from = await remoteListing(ws, there, signal)
  if (from === null) throw new CliError(`${there} is not there any more`)
  const to = await localListing(here)
  await addDigests(here, to, from)
  const plan = planOf(from, to, { is_deleting: true })
  for (const at of [...plan.replaced, ...plan.gone]) await rm(path.join(here, at), { recursive: true, force: true })
  await download(ws, { here, there, from, paths: plan.made }, progress, signal)
}

/** Each file is replaced completely or not at all. */
export async function download(
  ws: Workspace,
  { here, there, from, paths }: Transfer,
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  const files: string[] = []
  for (const at of paths) {
    const entry = from.get(at)
    // The download needs full permission to fill the folder.
    if (entry?.type === 'directory') await mkdir(path.join(here, at), { mode: entry.mode | 0o700 })
    else if (entry?.type === 'symlink') await link(entry.target ?? '', path.join(here, at))
    else files.push(at)
  }
  const left = files.values()
  const one = async () => {
    for (const at of left) {
      const file = { there: path.posix.join(there, at), here: path.join(here, at), mode: from.get(at)?.mode ?? 0o600 }
      await fetchFile(ws, file, progress, signal)
    }
  }
  await Promise.all(Array.from({ length: DOWNLOADS_AT_ONCE }, one))
}

async function link(target: string, at: string): Promise<void> {
  const beside = partOf(at)
  await symlink(target, beside)
  await rename(beside, at)
}

async function moveInto(made: string, place: string): Promise<void> {
  for (const entry of await readdir(made, { withFileTypes: true })) {
    const [from, to] = [path.join(made, entry.name), path.join(place, entry.name)]
    if (!entry.isDirectory()) {
      await rename(from, to)
      continue
    }
    const [{ mode }, there] = [await lstat(from), await lstat(to).catch(() => null)]
    if (there !== null && !there.isDirectory()) throw new CliError(`${to} is no folder`)
    // A folder without write permission could neither be emptied nor moved.
    await chmod(from, mode | 0o700)
    await (there === null ? rename(from, to) : moveInto(from, to))
    await chmod(to, mode & 0o777)
  }
}

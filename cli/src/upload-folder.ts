import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { lstat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError } from './command.ts'
import { counted, type Progress } from './progress.ts'
import { type Listing, partsOf } from './sync-plan.ts'
import { holesOf } from './tar.ts'

/** Size of one request; the API's limits are 256 MiB and 100,000 entries. An interrupted request starts again from its beginning. */
export const TAR_BYTES_MAX = 64 << 20
/** Larger files are sent one by one, in parts that are retried separately. */
const PACKED_BYTES_MAX = 16 << 20

export interface Transfer {
  here: string
  there: string
  from: Listing
  /** Parents precede their children; '' is the root. */
  paths: readonly string[]
}

/** Each tar is applied completely or not at all. A large file replaces the old one when it is complete. */
export async function uploadPaths(ws: Workspace, { here, there, from, paths }: Transfer, progress: Progress): Promise<void> {
  const { writes } = await holesOf()
  const isLarge = (at: string) => (from.get(at)?.bytes ?? 0) > PACKED_BYTES_MAX
  const packed = paths.filter((at) => !isLarge(at))
  for (const part of partsOf(packed, (at) => tarBytes(at, from), TAR_BYTES_MAX))
    await sendTar(ws, { here, there, writes, paths: part }, progress)
  for (const at of paths.filter(isLarge)) {
    const is_sent =
      from.get(at)?.has_holes === true && writes.length > 0 && (await sendAlone(ws, { here, there, writes, paths: [at] }, progress))
    if (!is_sent) await writeLarge(ws, path.join(here, at), path.posix.join(there, at), progress)
  }
}

/** A tar preserves the holes of a file. @returns false if the data is too large for one request */
async function sendAlone(ws: Workspace, file: Packed, progress: Progress): Promise<boolean> {
  try {
    await sendTar(ws, file, progress)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'payload_too_large') return false
    throw error
  }
}

interface Packed extends Omit<Transfer, 'from'> {
  writes: readonly string[]
}

async function sendTar(ws: Workspace, { here, there, writes, paths }: Packed, progress: Progress): Promise<void> {
  let packing: ReturnType<typeof packed> | undefined
  let sent = 0
  const seen = { ...progress, add: (bytes: number) => void ((sent += bytes), progress.add(bytes)) }
  const again = () => {
    packing?.stop()
    progress.add(-sent)
    sent = 0
    packing = packed(here, writes, paths)
    return counted(packing.stream, seen)
  }
  try {
    await ws.files.writeTar(there, again, { create_parents: true, links_out: true })
  } catch (error) {
    packing?.stop()
    progress.add(-sent)
    throw error
  }
  const code = await packing?.ended
  if (code !== 0) throw new CliError(`tar ended with ${code ?? 'a signal'}`)
}

function packed(here: string, writes: readonly string[], paths: readonly string[]) {
  const tar = spawn('tar', [...writes, '-C', here, '--no-recursion', '--null', '-T', '-', '-cf', '-'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  tar.stdin.on('error', () => undefined).end(paths.map((at) => `./${at}\0`).join('')) // tar may exit early; its exit code is checked
  const ended = once(tar, 'close').then(([code]) => code as number | null)
  ended.catch(() => undefined) // the caller awaits this promise after the upload
  return { stream: Readable.toWeb(tar.stdout) as ReadableStream<Uint8Array>, ended, stop: () => void tar.kill() }
}

async function writeLarge(ws: Workspace, here: string, there: string, progress: Progress): Promise<void> {
  const { mode } = await lstat(here)
  const stream = counted(Readable.toWeb(createReadStream(here)) as ReadableStream<Uint8Array>, progress)
  await ws.files.write(there, stream, { mode: (mode & 0o777).toString(8).padStart(4, '0'), create_parents: true })
}

function tarBytes(at: string, listing: Listing): number {
  return 1024 + Buffer.byteLength(at) + (listing.get(at)?.bytes ?? 0)
}

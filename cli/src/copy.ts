import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Context, type Run, usageError } from './command.ts'
import { downloadFolder } from './download-folder.ts'
import { fetchFile } from './fetch-file.ts'
import { parseRemotePath } from './remote-path.ts'
import { counted, during, type Progress, progressOf } from './progress.ts'
import { localListing, unchangedRemotely } from './sync-listing.ts'
import type { Listing } from './sync-plan.ts'
import { untilSignal } from './until-signal.ts'
import { TAR_BYTES_MAX, uploadPaths } from './upload-folder.ts'

export const copy: Run = async (context, [from = '', to = '']) => {
  const [source, target] = [parseRemotePath(from), parseRemotePath(to)]
  if ((source === null) === (target === null))
    throw usageError('One of both is in a workspace: WORKSPACE:/path', 'berth cp ./file WORKSPACE:/home/user/file')
  const shown = (total: number | null) => progressOf(from, total, context)
  if (target) await upload(context, from, await context.workspace(target.name), target.path, shown)
  else if (source) await download(context, await context.workspace(source.name), source.path, to, shown)
  return 0
}

type Shown = (total: number | null) => Progress

async function upload({ say }: Context, from: string, ws: Workspace, to: string, shown: Shown): Promise<void> {
  const found = await stat(from).catch(() => null)
  if (found === null) throw new CliError(`${from} is not there`)
  if (found.isDirectory()) {
    const inside = isOfContents(from) || !(await isFolder(ws, to)) ? to : path.posix.join(to, path.basename(from))
    return say(await uploadFolder(from, ws, inside, shown))
  }
  const is_folder = to.endsWith('/') || (await isFolder(ws, to))
  const target = is_folder ? path.posix.join(to, path.basename(from)) : to
  const mode = (found.mode & 0o777).toString(8).padStart(4, '0')
  const { bytes_written } = await during(shown(found.size), (progress) =>
    ws.files.write(target, counted(streamOf(createReadStream(from)), progress), { mode, create_parents: true }),
  )
  say(`${bytes_written} bytes to ${target}`)
}

async function download({ say }: Context, ws: Workspace, from: string, to: string, shown: Shown): Promise<void> {
  const there = await ws.files.stat(from)
  const is_folder = (await stat(to).catch(() => null))?.isDirectory() ?? false
  if (there.type === 'directory') {
    const inside = isOfContents(from) || !is_folder ? to : path.join(to, path.posix.basename(from))
    await downloadFolder(ws, from, inside, shown)
    return say(`${from} to ${inside}`)
  }
  const target = is_folder ? path.join(to, path.posix.basename(from)) : to
  const file = { there: from, here: target, mode: null }
  await untilSignal((signal) =>
    during(shown(there.type === 'file' ? there.size : null), (progress) => fetchFile(ws, file, progress, signal)),
  )
  say(`${(await stat(target)).size} bytes to ${target}`)
}

/** `FOLDER/.` means the folder's contents, as in cp, scp and docker cp. */
function isOfContents(from: string): boolean {
  return ['.', '..'].includes(path.posix.basename(from))
}

/** Skips files that an interrupted copy has already sent. */
async function uploadFolder(here: string, ws: Workspace, there: string, shown: Shown): Promise<string> {
  const from = await localListing(here)
  const all = [...from.keys()].filter((at) => from.get(at)?.type !== 'other').toSorted()
  const files = all.filter((at) => from.get(at)?.type === 'file')
  const same = bytesOf(files, from) > TAR_BYTES_MAX ? await unchangedRemotely(ws, there, here, from, files) : new Set<string>()
  const paths = ['', ...all.filter((at) => !same.has(at))]
  const bytes = bytesOf(paths, from)
  await during(shown(bytes), (progress) => uploadPaths(ws, { here, there, from, paths }, progress))
  const left_out = from.size - all.length
  return [
    `${paths.length} entries, ${bytes} bytes`,
    ...(same.size > 0 ? [`${same.size} files were there`] : []),
    ...(left_out > 0 ? [`${left_out} left out: neither files, nor folders, nor links`] : []),
  ].join('; ')
}

function bytesOf(paths: readonly string[], listing: Listing): number {
  const found = paths.map((at) => listing.get(at))
  return found.reduce((sum, entry) => sum + (entry?.type === 'file' ? entry.bytes : 0), 0)
}

async function isFolder(ws: Workspace, path: string): Promise<boolean> {
  if (!(await ws.files.exists(path))) return false
  return (await ws.files.stat(path)).type === 'directory'
}

function streamOf(readable: Readable): ReadableStream<Uint8Array> {
  return Readable.toWeb(readable) as ReadableStream<Uint8Array>
}

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import path from 'node:path'
import { Readable, Writable } from 'node:stream'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Context, type Run, usageError } from './command.ts'
import { fetchFile } from './fetch-file.ts'
import { counted, during, type Progress, progressOf } from './progress.ts'
import { holesOf } from './tar.ts'

export const copy: Run = async (context, [from = '', to = '']) => {
  const [source, target] = [placeOf(from), placeOf(to)]
  if ((source === null) === (target === null))
    throw usageError('One of both is in a workspace: WORKSPACE:/path', 'berth cp ./file WORKSPACE:/home/user/file')
  const shown = (total: number | null) => progressOf(from, total, context)
  if (target) await upload(context, from, await context.workspace(target.name), target.path, shown)
  else if (source) await download(context, await context.workspace(source.name), source.path, to, shown)
  return 0
}

export function placeOf(text: string): { name: string; path: string } | null {
  const at = text.indexOf(':/')
  return at < 1 ? null : { name: text.slice(0, at), path: text.slice(at + 1) }
}

type Shown = (total: number | null) => Progress

async function upload({ say }: Context, from: string, ws: Workspace, to: string, shown: Shown): Promise<void> {
  const found = await stat(from).catch(() => null)
  if (found === null) throw new CliError(`${from} is not there`)
  if (found.isDirectory()) {
    const { writes } = await holesOf()
    const tar = spawn('tar', [...writes, '-C', from, '-cf', '-', '.'], { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(tar, 'close')
    const { entries, bytes } = await during(shown(null), (progress) =>
      ws.files.writeTar(to, counted(streamOf(tar.stdout), progress), { create_parents: true }),
    )
    const [code] = (await ended) as [number]
    if (code !== 0) throw new CliError(`tar ended with ${code}`)
    return say(`${entries} entries, ${bytes} bytes`)
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
  if (there.type === 'directory') {
    await mkdir(to, { recursive: true })
    const { reads } = await holesOf()
    const tar = spawn('tar', ['-C', to, '--no-same-owner', '-xf', '-'], { stdio: ['pipe', 'inherit', 'inherit'] })
    const ended = once(tar, 'close')
    const stream = await ws.files.readTar(from, { sparse: reads })
    await during(shown(null), (progress) => counted(stream, progress).pipeTo(Writable.toWeb(tar.stdin) as WritableStream<Uint8Array>))
    const [code] = (await ended) as [number]
    if (code !== 0) throw new CliError(`tar ended with ${code}`)
    return say(`${from} to ${to}`)
  }
  const is_folder = (await stat(to).catch(() => null))?.isDirectory() ?? false
  const target = is_folder ? path.join(to, path.posix.basename(from)) : to
  await during(shown(there.type === 'file' ? there.size : null), (progress) => fetchFile(ws, from, target, null, progress))
  say(`${(await stat(target)).size} bytes to ${target}`)
}

async function isFolder(ws: Workspace, path: string): Promise<boolean> {
  if (!(await ws.files.exists(path))) return false
  return (await ws.files.stat(path)).type === 'directory'
}

function streamOf(readable: Readable): ReadableStream<Uint8Array> {
  return Readable.toWeb(readable) as ReadableStream<Uint8Array>
}

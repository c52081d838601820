import { lstat, mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Workspace } from '../../sdk/typescript/src/main.ts'
import { CliError, type Context, type Run, usageError } from './command.ts'
import { download } from './download-folder.ts'
import { parseRemotePath } from './remote-path.ts'
import { escapeLine } from './print.ts'
import { during, type Progress, progressOf, sizeOf } from './progress.ts'
import { addDigests, localListing, namesOf, remoteListing } from './sync-listing.ts'
import { type Listing, type Plan, planOf, without } from './sync-plan.ts'
import { untilSignal } from './until-signal.ts'
import { uploadPaths } from './upload-folder.ts'

export const sync: Run = async (context, [from = '', to = '']) => {
  const [source, target] = [parseRemotePath(from), parseRemotePath(to)]
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
      await uploadPaths(ws, { here, there, from, paths }, progress)
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
    make: (paths, progress) => untilSignal((signal) => download(ws, { here, there, from, paths }, progress, signal)),
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
  for (const at of plan.left_out) say(`Left out: ${escapeLine(at)}`)
  say(`${plan.made.length} carried (${sizeOf(plan.bytes)}), ${plan.gone.length} deleted, ${plan.unchanged} as before`)
}

function linesOf({ made, replaced, gone }: Plan): string[] {
  return [
    ...replaced.map((at) => `- ${escapeLine(at)}`),
    ...made.map((at) => `+ ${escapeLine(at)}`),
    ...gone.map((at) => `- ${escapeLine(at)}`),
  ]
}

function kept({ flags }: Context, listing: Map<string, never> | Parameters<typeof without>[0]): Listing {
  return without(listing, (flags['exclude'] as unknown as string[] | undefined) ?? [])
}

async function removeThere(ws: Workspace, there: string, paths: readonly string[]): Promise<void> {
  for (const stdin of namesOf(paths)) {
    const { ok, stderr } = await ws.exec(['sh', '-c', 'cd "$1" && exec xargs -0 rm -rf --', 'sh', there], { stdin })
    if (!ok) throw new CliError(`The workspace could not delete: ${stderr.trim()}`)
  }
}

async function isFolder(at: string): Promise<boolean> {
  return lstat(`${at}/`).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

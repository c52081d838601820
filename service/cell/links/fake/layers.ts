import { createHash } from 'node:crypto'
import { HostFailure } from '../hostd.ts'
import type { Layer, LayerRequest } from '../hostd-layers.ts'
import { subjectName } from '../subject.ts'
import { DISK_BYTES, type World } from './world.ts'

/** What a disk holds, under the digest of just that. */
export function makeLayer(world: World, request: LayerRequest): Layer {
  const files = new Map(filesOf(world, request))
  for (const path of files.keys()) if ((request.drop ?? []).some((pattern) => isDropped(pattern, path))) files.delete(path)
  if (files.size > request.entries_max) throw refused('too_many_entries')
  if ([...files.values()].reduce((bytes, text) => bytes + text.length, 0) > request.bytes_max) throw refused('too_large')
  const digest = createHash('sha256')
    .update(JSON.stringify([...files].sort()))
    .digest('hex')
  world.layers.set(digest, files)
  return { digest, size_bytes: DISK_BYTES, entries: files.size, findings: request.scan === true ? findingsIn(files) : [] }
}

/** The one word that it takes for a secret. */
function findingsIn(files: Map<string, string>): Layer['findings'] {
  return [...files].filter(([, text]) => text.includes('FAKE-SECRET')).map(([path]) => ({ path, rule: 'fake_secret', line: 1 }))
}

function filesOf(world: World, { subject, of, disk = '' }: LayerRequest): Map<string, string> {
  const owner = subjectName(subject)
  if (of === undefined && world.machines.has(owner)) throw failure('already_running', 'The machine has not ended')
  const files =
    of === undefined ? world.disks.get(owner)?.get(disk) : world.checkpoints.get(subjectName(of.subject))?.get(of.checkpoint_id)?.files
  if (files === undefined) throw failure('not_found', 'There is no such disk')
  return files
}

function isDropped(pattern: string, path: string): boolean {
  const text = pattern.replaceAll(/[.+?()|[\]{}^$\\]/g, '\\$&').replaceAll('*', '[^/]*')
  return new RegExp(pattern.endsWith('/') ? `^${text}` : `^${text}(/|$)`).test(path)
}

function failure(code: HostFailure['code'], message: string, details: Record<string, unknown> = {}): HostFailure {
  return new HostFailure(code, message, { retryable: false, details })
}

function refused(why: string): HostFailure {
  return failure('layer_refused', 'What the disk holds becomes no layer', { why })
}

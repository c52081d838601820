import { createHash } from 'node:crypto'
import type { Layer, LayerEntry, LayerList, LayerRequest, LayersDrop, LayersHere } from '../../../../contract/internal/host-layers.ts'
import type { StartRequest } from '../../../../contract/internal/host.ts'
import { HostFailure } from '../hostd.ts'
import { subjectName } from '../subject.ts'
import { DISK_BYTES, type World } from './world.ts'

export interface LayerBook {
  /** Removed layers. Every other layer exists; a layer that was never made is empty. */
  dropped: Set<string>
  /** The number of listings before the layer was last used. */
  asked: Map<string, number>
  looks: number
  users: Map<string, readonly string[]>
}

export function makeLayer(world: World, request: LayerRequest): Layer {
  const { root = '' } = request
  const below = [...filesOf(world, request)].filter(([path]) => path.startsWith(`${root}/`))
  if (root !== '' && below.length === 0) throw failure('not_found', 'There is no such directory')
  const files = new Map(below.map(([path, text]) => [path.slice(root.length), text]))
  for (const path of files.keys()) if ((request.drop ?? []).some((pattern) => isDropped(pattern, path))) files.delete(path)
  if (files.size > request.entries_max) throw refused('too_many_entries')
  if ([...files.values()].reduce((bytes, text) => bytes + text.length, 0) > request.bytes_max) throw refused('too_large')
  const digest = createHash('sha256')
    .update(JSON.stringify([...files].sort()))
    .digest('hex')
  world.layers.set(digest, files)
  world.layer_book.dropped.delete(digest)
  ask(world, [digest])
  return { digest, size_bytes: DISK_BYTES, entries: files.size, findings: request.scan === true ? findingsIn(files) : [] }
}

function ask({ layer_book }: World, layers: readonly string[]): void {
  for (const layer of layers) layer_book.asked.set(layer, layer_book.looks)
}

export function keepLayers(world: World, layers: readonly string[]): void {
  ask(world, layers)
  if (layers.some((layer) => world.layer_book.dropped.has(layer)))
    throw failure('layer_missing', 'A template layer is not on this computer')
}

/** Protects a machine's layers while its subject has a machine or a checkpoint. */
export function beginOn(world: World, { subject, layers }: StartRequest): void {
  keepLayers(world, layers)
  world.layer_book.users.set(subjectName(subject), layers)
}

/** Time is not simulated: only layers used since the last listing count as recently used. */
export function layersHere({ layers, layer_book }: World): LayersHere {
  const idle = (digest: string) => (layer_book.asked.get(digest) === layer_book.looks ? 0 : 2 ** 30)
  const here = [...layers].map(([digest]) => ({ digest, size_bytes: DISK_BYTES, idle_seconds: idle(digest) }))
  layer_book.looks += 1
  return { listing: `fake.${layer_book.looks}`, layers: here }
}

export function dropLayers(world: World, { listing, layers, idle_seconds_min }: LayersDrop): string[] {
  const { dropped, asked, looks, users } = world.layer_book
  const look = Number(listing.split('.')[1])
  if (!(look <= looks)) throw failure('not_found', 'There was no such look')
  const stands = (owner: string) => world.machines.has(owner) || (world.checkpoints.get(owner)?.size ?? 0) > 0
  const used = new Set([...users].flatMap(([owner, of]) => (stands(owner) ? of : [])))
  const young = look - (idle_seconds_min > 0 ? 1 : 0)
  return layers.filter((layer) => {
    if (used.has(layer) || (asked.get(layer) ?? -1) >= young) return false
    if (world.layers.delete(layer)) dropped.add(layer)
    return true
  })
}

export function listLayer(world: World, layer: string, after: string): LayerList {
  const files = world.layers.get(layer)
  if (files === undefined) throw failure('layer_missing', 'A template layer is not on this computer')
  const paths = ['/', ...new Set([...files.keys()].flatMap(above))].sort((a, b) => (a.split('/') < b.split('/') ? -1 : 1))
  const at = after === '' ? 0 : paths.indexOf(after) + 1
  const path = paths[at]
  const directories = path === undefined ? [] : [{ path, entries: entriesOf(files, paths, path) }]
  return { directories, done: at + 1 >= paths.length }
}

function above(path: string): string[] {
  const names = path.split('/').slice(1, -1)
  return names.map((_, at) => `/${names.slice(0, at + 1).join('/')}`)
}

function entriesOf(files: Map<string, string>, directories: string[], path: string): LayerEntry[] {
  const isIn = (each: string) => each !== '/' && (each.slice(0, each.lastIndexOf('/')) || '/') === path
  const named = (each: string) => ({ name: each.slice(each.lastIndexOf('/') + 1), uid: 0, gid: 0 })
  return [
    ...directories.filter(isIn).map((each) => ({ ...named(each), type: 'directory' as const, size_bytes: 0, mode: 0o755 })),
    ...[...files].filter(([each]) => isIn(each)).map(([each, text]) => ({ ...named(each), ...fileOf(text) })),
  ]
}

function fileOf(text: string) {
  const sha256 = createHash('sha256').update(text).digest('hex')
  return { type: 'file' as const, size_bytes: Buffer.byteLength(text), mode: 0o644, sha256 }
}

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

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LayerEntry } from '../../../../contract/internal/host-layers.ts'
import { differences } from './compare.ts'
import { join, Overlay, type Load } from './overlay.ts'
import { bytesOf, positionOf } from './position.ts'

const BOUNDS = { directories: 1000, position_bytes: 110 }

/** Layers as text, one path a line: `path=text` a file, `path!` a whiteout, `path/!` an opaque directory, `path/>to` a moved one. */
function layersOf(layers: Record<string, string[]>): Load {
  const directories = new Map<string, Map<string, LayerEntry>>()
  const add = (layer: string, path: string, more: Partial<LayerEntry> & Pick<LayerEntry, 'type'>) => {
    const [at, name] = [path.slice(0, path.lastIndexOf('/')) || '/', path.slice(path.lastIndexOf('/') + 1)]
    if (at !== '/' && !directories.get(`${layer} ${at.slice(0, at.lastIndexOf('/')) || '/'}`)?.has(at.slice(at.lastIndexOf('/') + 1))) {
      add(layer, at, { type: 'directory' })
    }
    const entries = directories.get(`${layer} ${at}`) ?? new Map<string, LayerEntry>()
    entries.set(name, { name, size_bytes: 0, mode: 0o755, uid: 0, gid: 0, ...more })
    directories.set(`${layer} ${at}`, entries)
    if (more.type === 'directory' && !directories.has(`${layer} ${path}`)) directories.set(`${layer} ${path}`, new Map())
  }
  for (const [layer, paths] of Object.entries(layers)) {
    directories.set(`${layer} /`, directories.get(`${layer} /`) ?? new Map())
    for (const line of paths) {
      const [, path = '', rest = ''] = /^(.*?)(=.*|!|\/!|\/>.*|\/)?$/.exec(line) ?? []
      if (rest.startsWith('=')) add(layer, path, { type: 'file', sha256: rest.slice(1), size_bytes: 1 })
      else if (rest === '!') add(layer, path, { type: 'whiteout' })
      else if (rest === '/!') add(layer, path, { type: 'directory', opaque: true })
      else if (rest.startsWith('/>')) add(layer, path, { type: 'directory', redirect: rest.slice(2) })
      else add(layer, path, { type: 'directory' })
    }
  }
  return async (places) => places.map(({ layer, path }) => directories.get(`${layer} ${path}`) ?? null)
}

async function seenIn(layers: Record<string, string[]>): Promise<string[]> {
  const overlay = new Overlay(Object.keys(layers), layersOf(layers))
  const all: string[] = []
  const walk = async (path: string, places: ReturnType<Overlay['root']>) => {
    for (const [name, { entry, places: below }] of await overlay.children(places)) {
      all.push(join(path, name) + (entry.type === 'file' ? `=${entry.sha256}` : '/'))
      if (entry.type === 'directory') await walk(join(path, name), below)
    }
  }
  await walk('/', overlay.root())
  return all
}

test('upper names win, directories merge, whiteouts and opaque directories hide lower layers', async () => {
  const base = ['/etc/a=1', '/etc/b=1', '/lib/x=1', '/opt/old=1', '/var/log/z=1']
  const top = ['/etc/a=2', '/etc/b!', '/lib/!', '/lib/y=2', '/opt!', '/var=file']
  assert.deepEqual(await seenIn({ base, top }), ['/etc/', '/etc/a=2', '/lib/', '/lib/y=2', '/var=file'])
})

test('after a whiteout only content of higher layers is visible', async () => {
  assert.deepEqual(await seenIn({ base: ['/a/x=1'], gone: ['/a!'], again: ['/a/y=3'] }), ['/a/', '/a/y=3'])
})

test('a renamed directory keeps the content that lower layers had under its old name', async () => {
  const base = ['/old/deep/f=1', '/old/g=1']
  assert.deepEqual(await seenIn({ base, top: ['/new/>old', '/new/h=2', '/old!'] }), [
    '/new/',
    '/new/deep/',
    '/new/deep/f=1',
    '/new/g=1',
    '/new/h=2',
  ])
})

test('a moved directory is followed by its whole path through lower layers, even if moved twice', async () => {
  const base = ['/a/b/c/f=1', '/other/g=1']
  const middle = ['/a/b/c/m=2', '/a/b/c/f!']
  const top = ['/z/moved/>/a/b/c', '/a/b/c!']
  assert.deepEqual(await seenIn({ base, middle, top }), ['/a/', '/a/b/', '/other/', '/other/g=1', '/z/', '/z/moved/', '/z/moved/m=2'])
  const again = ['/last/>/z/moved', '/z/moved!']
  assert.deepEqual(
    (await seenIn({ base, middle, top, again })).filter((path) => path.startsWith('/last')),
    ['/last/', '/last/m=2'],
  )
})

test('a move does not reveal content that a lower layer has hidden', async () => {
  const layers = { base: ['/a/f=1'], hiding: ['/a!'], later: ['/a/g=2'], top: ['/b/>a', '/a!'] }
  assert.deepEqual(await seenIn(layers), ['/b/', '/b/g=2'])
  const opaque = { base: ['/x/a/f=1'], hiding: ['/x/!', '/x/a/g=2'], top: ['/b/>/x/a'] }
  assert.deepEqual(
    (await seenIn(opaque)).filter((path) => path.startsWith('/b')),
    ['/b/', '/b/g=2'],
  )
})

test('a comparison skips directories with identical layers and continues from any position', async () => {
  const load = layersOf({ base: ['/big/one=1', '/etc/a=1', '/etc/b=1'], top: ['/etc/a=2', '/etc/b!', '/etc/c=2'] })
  const asked: string[] = []
  const spy: Load = (places) => {
    asked.push(...places.map(({ layer, path }) => `${layer} ${path}`))
    return load(places)
  }
  const steps = async (from: number[], directories = 1000) => {
    const all = []
    for await (const step of differences(new Overlay(['base'], spy), new Overlay(['base', 'top'], spy), from, { ...BOUNDS, directories }))
      all.push(step)
    return all
  }
  const all = await steps([])
  assert.deepEqual(
    all.map((step) => step.kind === 'difference' && step.path),
    ['/etc/a', '/etc/b', '/etc/c'],
  )
  assert.ok(!asked.includes('base /big'))
  for (const [at, step] of all.entries()) assert.deepEqual(await steps(step.position), all.slice(at + 1))
  const [bound] = await steps([], 1)
  assert.ok(bound?.kind === 'bound')
  assert.deepEqual(await steps(bound.position), all)
})

test('a directory deeper than a position can encode is one change without its content', async () => {
  const load = layersOf({ one: ['/a/b/c/f=1'], two: ['/a/b/c/f=2'] })
  const told = []
  for await (const step of differences(new Overlay(['one'], load), new Overlay(['two'], load), [], { ...BOUNDS, position_bytes: 2 }))
    told.push(step)
  assert.deepEqual(
    told.map((step) => step.kind === 'difference' && step.path),
    ['/a/b'],
  )
})

test('a position survives encoding and decoding', () => {
  for (const position of [[], [0], [127, 128, 16_383, 16_384], [2_000_000, 0, 5]]) assert.deepEqual(positionOf(bytesOf(position)), position)
})

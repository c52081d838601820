import assert from 'node:assert/strict'
import { test } from 'node:test'
import { digestOf } from './blob-files.ts'
import { type Blobs, BlobError, type Digest, partOfBlob } from './blobs.ts'
import type { DirectoryEntry, Entry, TreePath } from './entries.ts'
import { createMarks, editTree, emptyRoot, findEntry, listEntries, markTree, readRoot, type TreeChange, TreeMismatch } from './tree.ts'

function counted() {
  const kept = new Map<Digest, Buffer>()
  const counts = { read: 0, written: 0 }
  const blobs: Blobs = {
    put: async (contents) =>
      contents.map((content) => {
        const digest = digestOf(content)
        counts.written += 1
        kept.set(digest, content)
        return digest
      }),
    get: async (digest, part) => {
      counts.read += 1
      const content = kept.get(digest)
      if (content === undefined) throw new BlobError('missing', digest)
      return partOfBlob(content, part)
    },
    has: async (digest) => kept.has(digest),
    delete: async (digest) => void kept.delete(digest),
  }
  return { blobs, kept, counts }
}

const START = emptyRoot(new Date(1000))

function growing() {
  const { blobs, kept, counts } = counted()
  let root: DirectoryEntry = START
  let digest: Digest | null = null
  const change = async (changes: TreeChange[], modified_ms: number) => {
    const edited = await editTree({ blobs }, root, changes, modified_ms)
    await blobs.put(edited.blobs)
    root = edited.root
    digest = edited.digest
  }
  return { blobs, kept, counts, change, root: () => root, digest: () => digest }
}

const file = (text: string, modified_ms: number, mode = 0o644): Entry => {
  const sha256 = digestOf(Buffer.from(text))
  return { type: 'file', mode, modified_ms, size: text.length, content: sha256, sha256 }
}

type Attributes = Exclude<Entry, { type: 'directory' }> | { type: 'directory'; mode: number; modified_ms: number }
type Model = Map<string, Attributes>

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/'))
const segments = (path: string): TreePath => path.split('/').slice(1)

class Tree {
  readonly paths: Model = new Map([['', { type: 'directory', mode: 0o755, modified_ms: 1000 }]])

  below(path: string): string[] {
    return [...this.paths.keys()].filter((each) => each.startsWith(`${path}/`))
  }
  isDirectory(path: string): boolean {
    return this.paths.get(path)?.type === 'directory'
  }
  touch(path: string, now: number): void {
    const parent = this.paths.get(parentOf(path))
    if (parent?.type === 'directory') this.paths.set(parentOf(path), { ...parent, modified_ms: now })
  }
  put(path: string, entry: Attributes, now: number): void {
    this.remove(path, now)
    this.paths.set(path, entry)
  }
  remove(path: string, now: number): void {
    for (const each of [path, ...this.below(path)]) this.paths.delete(each)
    this.touch(path, now)
  }
  move(from: string, to: string, now: number): void {
    const moved = [from, ...this.below(from)].map((path) => [to + path.slice(from.length), this.paths.get(path)] as const)
    this.remove(from, now)
    this.remove(to, now)
    for (const [path, entry] of moved) if (entry) this.paths.set(path, entry)
  }
}

async function built(model: Model) {
  const { blobs, kept } = counted()
  const changes: TreeChange[] = [...model].map(([path, entry]) =>
    path === ''
      ? { kind: 'set', path: [], mode: entry.type === 'symlink' ? 0 : entry.mode, modified_ms: entry.modified_ms }
      : { kind: 'put', path: segments(path), entry: entry.type === 'directory' ? { ...entry, page: null } : entry },
  )
  const edited = await editTree({ blobs }, START, changes, 5)
  await blobs.put(edited.blobs)
  return { ...edited, kept }
}

function random(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) | 0
    let mixed = Math.imul(state ^ (state >>> 12), 0x297a2d39)
    mixed ^= mixed >>> 15
    return (mixed >>> 0) % below
  }
}

const NAMES = ['a', 'b', 'ab', 'abc', 'é', '日本', 'x'.repeat(255), ...Array.from({ length: 400 }, (_, i) => `f${i}`)]

function step(model: Tree, at: (below: number) => number, now: number, wide: boolean): TreeChange[] {
  const pick = <T>(all: readonly T[]): T => all[at(all.length)] as T
  const directory = pick([...model.paths.keys()].filter((path) => model.isDirectory(path)))
  const path = `${wide ? '' : directory}/${NAMES[at(wide ? NAMES.length : 12)] ?? 'z'}`
  const some = [...model.paths.keys()].filter((each) => each !== '')
  const kind = at(10)
  if (kind < 5 || some.length === 0) {
    const entry: Entry = kind === 0 ? { type: 'symlink', modified_ms: now, target: `/t${at(5)}` } : file(`t${at(50)}`, now, 0o600 + at(8))
    model.put(path, entry, now)
    return [{ kind: 'put', path: segments(path), entry }]
  }
  if (kind === 5) {
    const made = { type: 'directory', mode: 0o700, modified_ms: now } as const
    model.put(path, made, now)
    return [{ kind: 'put', path: segments(path), entry: { ...made, page: null } }]
  }
  const old = pick(some)
  if (kind === 6) {
    const entry = model.paths.get(old)
    if (entry === undefined || entry.type === 'symlink') return []
    model.paths.set(old, { ...entry, mode: 0o711, modified_ms: now })
    return [{ kind: 'set', path: segments(old), mode: 0o711, modified_ms: now }]
  }
  model.remove(old, now)
  return [{ kind: 'remove', path: segments(old) }]
}

test('any history of changes gives the digest of the same tree built at once', async () => {
  for (let seed = 1; seed <= 1000; seed++) {
    const at = random(seed)
    const wide = seed % 20 === 0 // many names in one directory, so that pages split and merge
    const tree = growing()
    const model = new Tree()
    for (let now = 2000; now < 2000 + (wide ? 400 : 25); now++) {
      const changes = step(model, at, now, wide)
      if (changes.length > 0) await tree.change(changes, now)
    }
    if (tree.digest() === null) continue
    const expected = await built(model.paths)
    assert.equal(tree.digest(), expected.digest, `seed ${seed}`)
    const [, ...entries] = [...model.paths.values()]
    const bytes = entries.reduce(
      (sum, entry) => sum + (entry.type === 'file' ? entry.size : entry.type === 'symlink' ? entry.target.length : 0),
      0,
    )
    const page = tree.root().page
    assert.deepEqual([page?.entries ?? 0, page?.bytes ?? 0], [entries.length, bytes], `seed ${seed}`)
  }
})

test('moving a directory with its contents moves only its entry', async () => {
  const tree = growing()
  const model = new Tree()
  const many = Array.from({ length: 1000 }, (_, i) => `/a/f${i}`)
  const changes: TreeChange[] = ['/a', '/b', ...many].map((path) => {
    const entry = path.length === 2 ? ({ type: 'directory', mode: 0o755, modified_ms: 7 } as const) : file('x', 7)
    model.put(path, entry, 7)
    return { kind: 'put', path: segments(path), entry: entry.type === 'directory' ? { ...entry, page: null } : entry }
  })
  model.paths.set('/a', { type: 'directory', mode: 0o755, modified_ms: 7 })
  await tree.change(changes, 7)
  const before = { ...tree.counts }
  const entry = await findEntry(tree, tree.root(), ['a'])
  assert.ok(entry)
  model.move('/a', '/b/c', 9)
  await tree.change(
    [
      { kind: 'remove', path: ['a'] },
      { kind: 'put', path: ['b', 'c'], entry },
    ],
    9,
  )
  assert.equal(tree.digest(), (await built(model.paths)).digest)
  assert.ok(tree.counts.written - before.written <= 3, 'the root, its page and that of /b')
})

test('entries are listed in byte order across pages', async () => {
  const tree = growing()
  const names = [...NAMES, '\u{1F600}', '\uFFFD', 'Z', '~']
  await tree.change(
    names.map((name) => ({ kind: 'put', path: [name], entry: file(name.slice(0, 3), 5) })),
    5,
  )
  const listed: string[] = []
  for await (const { name } of listEntries(tree, tree.root())) listed.push(name)
  assert.deepEqual(
    listed,
    names
      .map((name) => Buffer.from(name))
      .sort(Buffer.compare)
      .map(String),
  )
  for (const name of names) assert.equal((await findEntry(tree, tree.root(), [name]))?.type, 'file', name)
  for (const name of ['', 'f', 'f4000', 'zz']) assert.equal(await findEntry(tree, tree.root(), [name]), null, name)
})

test('a change costs the depth of its path, not the size of the tree', async () => {
  const cost = async (size: number) => {
    const tree = growing()
    const names = Array.from({ length: size }, (_, i) => `file-${String(i).padStart(7, '0')}`)
    await tree.change(
      names.map((name) => ({ kind: 'put', path: [name], entry: file('x', 5) })),
      5,
    )
    const worst = { read: 0, written: 0 }
    const at = random(size)
    for (let i = 0; i < 50; i++) {
      const path = [i % 2 === 0 ? (names[at(size)] ?? '') : `file-${at(9_999_999)}-new`]
      Object.assign(tree.counts, { read: 0, written: 0 })
      const is_there = (await findEntry(tree, tree.root(), path)) !== null
      await tree.change([is_there && i % 4 === 0 ? { kind: 'remove', path } : { kind: 'put', path, entry: file('y', 6) }], 6)
      worst.read = Math.max(worst.read, tree.counts.read)
      worst.written = Math.max(worst.written, tree.counts.written)
    }
    return worst
  }
  const [small, large] = [await cost(1000), await cost(1_000_000)]
  assert.ok(small.written <= 12 && large.written <= 12, JSON.stringify({ small, large }))
  assert.ok(small.read <= 40 && large.read <= 40, JSON.stringify({ small, large }))
})

test('marking covers exactly the blobs that a tree needs', async () => {
  const tree = growing()
  const names = Array.from({ length: 500 }, (_, i) => `n${i}`)
  const puts: TreeChange[] = names.map((name) => ({ kind: 'put', path: ['d', name], entry: file(`content of ${name}`, 5) }))
  await tree.blobs.put(names.map((name) => Buffer.from(`content of ${name}`)))
  await tree.change([{ kind: 'put', path: ['d'], entry: { ...START, modified_ms: 5 } }, ...puts], 5)
  await tree.change([{ kind: 'remove', path: ['d', 'n7'] }], 6)
  const digest = tree.digest() ?? ''
  const marked = createMarks()
  await markTree(tree, digest, marked)
  assert.ok(!marked.has(digestOf(Buffer.from('content of n7'))))
  for (const each of [...tree.kept.keys()]) if (!marked.has(each)) await tree.blobs.delete(each)
  assert.equal(tree.kept.size, marked.pages.size + marked.contents.size)
  const again = createMarks()
  await markTree(tree, digest, again)
  assert.deepEqual([again.pages, again.contents], [marked.pages, marked.contents])
  assert.deepEqual(await readRoot(tree, digest), tree.root())
})

test('changes that do not fit the tree are refused', async () => {
  const tree = growing()
  await tree.change([{ kind: 'put', path: ['f'], entry: file('x', 5) }], 5)
  const refused: TreeChange[][] = [
    [{ kind: 'remove', path: ['none'] }],
    [{ kind: 'set', path: ['none'], mode: 0 }],
    [{ kind: 'put', path: ['none', 'x'], entry: file('x', 5) }],
    [{ kind: 'put', path: ['f', 'x'], entry: file('x', 5) }],
    [
      { kind: 'remove', path: ['f'] },
      { kind: 'put', path: ['f', 'x'], entry: file('x', 5) },
    ],
    [
      { kind: 'remove', path: ['f'] },
      { kind: 'put', path: ['f'], entry: file('x', 5) },
    ],
  ]
  for (const changes of refused) await assert.rejects(tree.change(changes, 6), TreeMismatch)
})

test('a missing page is reported by its digest', async () => {
  const tree = growing()
  await tree.change([{ kind: 'put', path: ['f'], entry: file('x', 5) }], 5)
  const page = tree.root().page?.digest ?? ''
  await tree.blobs.delete(page)
  await assert.rejects(findEntry(tree, tree.root(), ['f']), { kind: 'missing', digest: page })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { depth } from '../../../../tests/support/depth.ts'
import { digestOf } from './blob-files.ts'
import { BlobError, type Digest, partOfBlob } from './blobs.ts'
import { changeOf, diffTrees, noCounts } from './diff.ts'
import type { DirectoryEntry, Entry } from './entries.ts'
import { editTree, emptyRoot, findEntry, listEntries, type TreeChange } from './tree.ts'

/* After each step, the tree must equal the model: a map from paths to entries. */

type Model = ReadonlyMap<string, Entry>
type Step =
  | { kind: 'write'; path: string[]; text: string; mode: number }
  | { kind: 'mkdir' | 'remove'; path: string[] }
  | { kind: 'link'; path: string[]; target: string }
  | { kind: 'fill'; path: string[]; names: number; text: string }
  | { kind: 'move'; path: string[]; to: string[] }
  | { kind: 'restore'; back: number }

const START = emptyRoot(new Date(0))
const name = fc.constantFrom('a', 'b', 'ab', 'é', 'c.txt')
const place = fc.array(name, { minLength: 1, maxLength: 3 })
const text = fc.constantFrom('', 'one', 'two')
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('write' as const), path: place, text, mode: fc.constantFrom(0o644, 0o755) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('mkdir' as const), path: place }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('remove' as const), path: place }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('link' as const), path: place, target: text }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('fill' as const), path: place, names: fc.integer({ min: 1, max: 300 }), text }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('move' as const), path: place, to: place }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restore' as const), back: fc.nat(20) }) },
)

const file = (content: string, mode: number): Entry => {
  const sha256 = digestOf(Buffer.from(content))
  return { type: 'file', mode, modified_ms: 1, size: Buffer.byteLength(content), content: sha256, sha256 }
}
const directory: DirectoryEntry = { type: 'directory', mode: 0o755, modified_ms: 1, page: null }
const keyOf = (path: readonly string[]) => path.join('/')
const isDirectory = (model: Model, path: readonly string[]) => path.length === 0 || model.get(keyOf(path))?.type === 'directory'
const below = (model: Model, path: readonly string[]) => [...model.keys()].filter((key) => key.startsWith(`${keyOf(path)}/`))

function take(model: Model, each: Exclude<Step, { kind: 'restore' }>): { next: Model; changes: TreeChange[] } | null {
  const { path } = each
  const there = model.get(keyOf(path))
  if (!isDirectory(model, path.slice(0, -1))) return null
  const next = new Map(model)
  const put = (entry: Entry) => next.set(keyOf(path), entry)
  const done = (entry: Entry) => {
    put(entry)
    return { next, changes: [{ kind: 'put', path, entry } as const] }
  }
  switch (each.kind) {
    case 'write':
      return there?.type === 'directory' ? null : done(file(each.text, each.mode))
    case 'link':
      return there?.type === 'directory' ? null : done({ type: 'symlink', modified_ms: 1, target: each.target })
    case 'mkdir':
      return there === undefined ? done(directory) : null
    case 'remove':
      if (there === undefined) return null
      for (const key of [keyOf(path), ...below(model, path)]) next.delete(key)
      return { next, changes: [{ kind: 'remove', path }] }
    case 'fill': {
      if (there?.type !== 'directory') return null
      const names = Array.from({ length: each.names }, (_, i) => [...path, `n${i}`])
      for (const full of names) next.set(keyOf(full), file(each.text, 0o644))
      return { next, changes: names.map((full) => ({ kind: 'put', path: full, entry: file(each.text, 0o644) })) }
    }
    case 'move':
      return null // handled by `moving`, which needs the entry of the tree
  }
}

function moved(model: Model, from: readonly string[], to: readonly string[]): Model | null {
  const there = model.get(keyOf(from))
  if (there === undefined || model.has(keyOf(to)) || !isDirectory(model, to.slice(0, -1))) return null
  if (`${keyOf(to)}/`.startsWith(`${keyOf(from)}/`)) return null
  const next = new Map(model)
  for (const key of [keyOf(from), ...below(model, from)]) {
    next.delete(key)
    next.set(keyOf(to) + key.slice(keyOf(from).length), model.get(key) as Entry)
  }
  return next
}

function blobsInMemory() {
  const kept = new Map<Digest, Buffer>()
  return {
    keep: (contents: readonly Buffer[]) => contents.forEach((content) => kept.set(digestOf(content), content)),
    blobs: {
      get: async (digest: Digest, part?: Parameters<typeof partOfBlob>[1]) => {
        const content = kept.get(digest)
        if (content === undefined) throw new BlobError('missing', digest)
        return partOfBlob(content, part)
      },
    },
  }
}

const plain = (entry: Entry): Entry => (entry.type === 'directory' ? { ...entry, page: null } : entry)

async function contentOf(
  reads: Parameters<typeof listEntries>[0],
  root: DirectoryEntry,
  above: string[] = [],
): Promise<Map<string, Entry>> {
  const all = new Map<string, Entry>()
  for await (const { name: own, entry } of listEntries(reads, root)) {
    all.set(keyOf([...above, own]), plain(entry))
    if (entry.type === 'directory') for (const [key, each] of await contentOf(reads, entry, [...above, own])) all.set(key, each)
  }
  return all
}

function modelDiff(before: Model, after: Model): string[] {
  const lines: string[] = []
  for (const key of new Set([...before.keys(), ...after.keys()])) {
    const [old = null, young = null] = [before.get(key), after.get(key)]
    const above = keyOf(key.split('/').slice(0, -1))
    const went_with = young === null && above !== '' && !isDirectory(after, above.split('/'))
    const change = changeOf(old, young)
    if (change !== null && !went_with) lines.push(`${change} ${key}`)
  }
  return lines.sort()
}

test('after any steps a tree equals the model, and so do its digest, its differences and its counts', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), fc.nat(), async (steps, chosen) => {
      const { blobs, keep } = blobsInMemory()
      const reads = { blobs }
      const history: { model: Model; root: DirectoryEntry; digest: Digest }[] = []
      const first = await editTree(reads, START, [], 1)
      keep(first.blobs)
      history.push({ model: new Map(), root: first.root, digest: first.digest })
      for (const each of steps) {
        const now = history.at(-1)
        assert.ok(now)
        if (each.kind === 'restore') {
          const earlier = history.at(-1 - (each.back % history.length))
          assert.ok(earlier)
          history.push(earlier)
          continue
        }
        const taken = each.kind === 'move' ? await moving(reads, now, each) : take(now.model, each)
        if (taken === null) continue
        const edited = await editTree(reads, now.root, taken.changes, 1)
        keep(edited.blobs)
        const counted = noCounts()
        for await (const { change } of diffTrees(reads, now.root, edited.root)) counted[change] += 1
        assert.deepEqual(edited.counts, counted)
        history.push({ model: taken.next, root: edited.root, digest: edited.digest })
      }
      const last = history.at(-1)
      const other = history[chosen % history.length]
      assert.ok(last && other)
      assert.deepEqual(await contentOf(reads, last.root), last.model)
      const lines: string[] = []
      for await (const { path, change } of diffTrees(reads, other.root, last.root)) lines.push(`${change} ${keyOf(path)}`)
      assert.deepEqual(lines.toSorted(), modelDiff(other.model, last.model))
      await sameInPages(reads, other.root, last.root, lines)
      const at_once = [...last.model].map(([key, entry]) => ({ kind: 'put', path: key.split('/'), entry }) as const)
      assert.equal(
        (await editTree(reads, START, [...at_once, { kind: 'set', path: [], modified_ms: last.root.modified_ms }], 1)).digest,
        last.digest,
      )
    }),
    { numRuns: depth({ short: 120, long: 5000 }) },
  )
})

async function moving(
  reads: Parameters<typeof listEntries>[0],
  now: { model: Model; root: DirectoryEntry },
  { path, to }: { path: string[]; to: string[] },
) {
  const next = moved(now.model, path, to)
  const entry = next === null ? null : await findEntry(reads, now.root, path)
  if (next === null || entry === null) return null
  return {
    next,
    changes: [
      { kind: 'remove', path },
      { kind: 'put', path: to, entry },
    ] as TreeChange[],
  }
}

async function sameInPages(
  reads: Parameters<typeof listEntries>[0],
  before: DirectoryEntry,
  after: DirectoryEntry,
  lines: string[],
): Promise<void> {
  for (const skip of [1, Math.floor(lines.length / 2), lines.length]) {
    const rest: string[] = []
    for await (const { path, change } of diffTrees(reads, before, after, { skip, wants: () => 'both' }))
      rest.push(`${change} ${keyOf(path)}`)
    assert.deepEqual(rest, lines.slice(skip))
  }
}

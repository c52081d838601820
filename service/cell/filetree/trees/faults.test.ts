import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, mock, test } from 'node:test'
import pino from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import { depth } from '../../../../tests/support/depth.ts'
import { textFile, treesBed, type TreesBed } from '../../../../tests/support/trees.ts'
import { asFailure } from '../tree-calls/calls.ts'
import { BlobError } from './blobs.ts'
import { collectTree } from './collect.ts'
import { readPart } from './contents.ts'
import { findEntry, listEntries } from './tree.ts'
import { TreeMoved } from './publish.ts'
import type { Trees } from './trees.ts'

let bed: TreesBed
before(async () => {
  bed = await treesBed()
})
after(() => bed[Symbol.asyncDispose]())

async function write(id: string, name: string, text: string, trees: Trees = bed.trees, base?: number) {
  using publication = trees.begin(id)
  const { entry, content } = textFile(text)
  await publication.put([content])
  return await publication.publish(base ?? (await trees.current(id))?.revision ?? 0, [{ kind: 'put', path: [name], entry }])
}

async function contentsOf(id: string, trees: Trees = bed.second()): Promise<Record<string, string>> {
  const blobs = trees.blobs(id)
  const now = await trees.current(id)
  assert.ok(now)
  const all: Record<string, string> = {}
  for await (const { name, entry } of listEntries({ blobs }, now.root)) {
    if (entry.type === 'file') all[name] = String(await readPart(blobs, entry, 0, entry.size))
  }
  return all
}

const collecting = () => ({
  cell_id: bed.cell_id,
  db: bed.database.cell,
  clock: bed.clock,
  trees: bed.trees,
  log: pino({ level: 'silent' }),
  quarantine_days: 7,
})
const revisionOf = async (id: string) => (await bed.trees.current(id))?.revision
const blobsOf = async (id: string) =>
  (await readdir(path.join(bed.folder, id), { recursive: true }))
    .filter((name) => path.basename(name).length === 64)
    .map((name) => path.join(bed.folder, id, name))

function writer(id: string, failpoint: string) {
  const script = path.join(import.meta.dirname, '../../../../tests/support/tree-writer.ts')
  const given = JSON.stringify({ database: bed.database.options('berth_cell'), folder: bed.folder, id, failpoint })
  const child = spawn(process.execPath, [script, given], { stdio: ['ignore', 'pipe', 'inherit'] })
  const acknowledged: number[] = []
  const lines = createInterface({ input: child.stdout })
  lines.on('line', (line) => acknowledged.push(Number(line)))
  return { child, lines, acknowledged }
}

test('killing a process at any step of a publication leaves the old or the new revision, complete', async () => {
  for (const [point, is_there] of [
    ['tree.T0', false],
    ['tree.T1', false],
    ['tree.T2', true],
  ] as const) {
    const id = await bed.open()
    await write(id, 'before', 'before')
    const { child } = writer(id, point)
    const [, signal] = (await once(child, 'exit')) as [number | null, string | null]
    assert.equal(signal, 'SIGKILL', point)
    assert.deepEqual(
      [await revisionOf(id), await contentsOf(id)],
      is_there ? [2, { before: 'before', 'file-0': 'text 0' }] : [1, { before: 'before' }],
      point,
    )
    await write(id, 'after', 'after')
    assert.equal((await contentsOf(id))['after'], 'after')
    bed.clock.ahead_ms += (LIMITS.tree.revisions_kept_seconds_default + LIMITS.tree.blob_grace_seconds + 60) * 1000
    await collectTree(collecting(), id)
    assert.equal((await contentsOf(id))['before'], 'before')
  }
})

test('acknowledged revisions survive a kill at any time', async () => {
  for (let round = 0; round < depth({ short: 2, long: 30 }); round++) {
    const id = await bed.open()
    const { child, lines, acknowledged } = writer(id, '')
    while (acknowledged.length < 3 + round) await once(lines, 'line')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const last = acknowledged.at(-1) ?? 0
    const revision = (await revisionOf(id)) ?? 0
    assert.ok(revision >= last, `round ${round}: ${revision} of ${last}`)
    const expected = Object.fromEntries(Array.from({ length: revision }, (_, i) => [`file-${i}`, `text ${i}`]))
    assert.deepEqual(await contentsOf(id), expected, `round ${round}`)
  }
})

test('a full store refuses a change and accepts the next one that fits', async () => {
  const id = await bed.open()
  const folder = path.join(bed.folder, id)
  await mkdir(folder)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder])
  try {
    const large = 'x'.repeat(700_000)
    await write(id, 'one', `${large}1`)
    await assert.rejects(write(id, 'two', `${large}2`), (error) => {
      const told = asFailure(error) as { code?: string }
      assert.deepEqual([(error as { code?: string }).code, told.code], ['ENOSPC', 'dependency_unavailable'])
      return true
    })
    assert.deepEqual([await revisionOf(id), Object.keys(await contentsOf(id)), await readdir(path.join(folder, 'tmp'))], [1, ['one'], []])
    await write(id, 'three', 'small')
    assert.deepEqual(Object.keys(await contentsOf(id)), ['one', 'three'])
  } finally {
    execFileSync('umount', ['-l', folder])
  }
})

test('after a failed sync nothing counts as stored, and the content is written again', async () => {
  const id = await bed.open()
  await write(id, 'before', 'before')
  await using handle = await open(import.meta.filename)
  const prototype = Object.getPrototypeOf(handle) as { sync(): Promise<void> }
  const failing = mock.method(prototype, 'sync', () => Promise.reject(Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' })))
  await assert.rejects(write(id, 'lost', 'lost'), { code: 'EIO' })
  failing.mock.restore()
  assert.deepEqual([await revisionOf(id), await contentsOf(id)], [1, { before: 'before' }])
  await write(id, 'lost', 'lost')
  assert.deepEqual(await contentsOf(id), { before: 'before', lost: 'lost' })
})

test('a flipped bit never yields wrong contents, and putting the blob again repairs it', async () => {
  const id = await bed.open()
  for (let i = 0; i < 5; i++) await write(id, `file-${i}`, `text ${i}`)
  const whole = await contentsOf(id)
  for (const blob of await blobsOf(id)) {
    const bytes = await readFile(blob)
    const wrong = Buffer.from(bytes)
    const at = Math.floor(Math.random() * bytes.length * 8)
    wrong[at >> 3] = (wrong[at >> 3] ?? 0) ^ (1 << (at & 7))
    await writeFile(blob, wrong)
    const read = await contentsOf(id).catch((error: unknown) => error)
    if (read instanceof BlobError) assert.deepEqual([read.kind, read.digest], ['corrupt', path.basename(blob)])
    else assert.deepEqual(read, whole, `bit ${at} of ${blob}`)
    await bed.trees.blobs(id).put([bytes])
    assert.deepEqual(await contentsOf(id), whole, 'stored again')
  }
})

test('a clock that jumps neither deletes referenced blobs nor changes the order of revisions', async () => {
  const id = await bed.open()
  const hours = (count: number) => (bed.clock.ahead_ms += count * 3600_000)
  await write(id, 'one', '1')
  hours(-48)
  await write(id, 'two', '2')
  await collectTree(collecting(), id)
  using publication = bed.trees.begin(id)
  const { entry, content } = textFile('under way')
  await publication.put([content])
  hours(96)
  await collectTree(collecting(), id)
  await publication.publish((await revisionOf(id)) ?? 0, [{ kind: 'put', path: ['three'], entry }])
  hours(-48)
  assert.deepEqual(await contentsOf(id), { one: '1', two: '2', three: 'under way' })
  assert.equal(await revisionOf(id), 3)
})

test('of fifty concurrent publications on one revision, from two processes, exactly one wins', async () => {
  const id = await bed.open()
  const [one, other] = [bed.second(), bed.second()]
  for (let base = 0; base < depth({ short: 2, long: 40 }); base++) {
    const all = await Promise.allSettled(
      Array.from({ length: 50 }, (_, i) => write(id, 'race', `${base} ${i}`, i % 2 === 0 ? one : other, base)),
    )
    const won = all.flatMap((each, i) => (each.status === 'fulfilled' ? [i] : []))
    assert.equal(won.length, 1, `base ${base}`)
    for (const each of all) if (each.status === 'rejected') assert.ok(each.reason instanceof TreeMoved, String(each.reason))
    const blobs = bed.trees.blobs(id)
    const now = await bed.trees.current(id)
    const entry = now && (await findEntry({ blobs }, now.root, ['race']))
    assert.ok(entry?.type === 'file')
    assert.equal(String(await readPart(blobs, entry, 0, entry.size)), `${base} ${won[0]}`)
  }
})

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readdir, rename, stat } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import { textFile, treesBed, type TreesBed } from '../../../../tests/support/trees.ts'
import { armFailpoint } from '../../../lib/failpoints.ts'
import { collectTree, collectTrees } from './collect.ts'
import { readPart } from './contents.ts'
import { readCollectable } from './collect-store.ts'
import { readTreeBytes } from '../../metering/tree-store.ts'
import { removeOrphanTrees } from './orphans.ts'
import { findEntry, listEntries, type TreeChange } from './tree.ts'
import { TreeFull } from './full.ts'
import { TreeMoved } from './publish.ts'
import type { Trees } from './trees.ts'

const DAY_MS = 24 * 3600 * 1000

let bed: TreesBed
before(async () => {
  bed = await treesBed()
})
after(() => bed[Symbol.asyncDispose]())

const put = (name: string, text: string): { change: TreeChange; content: Buffer } => {
  const { entry, content } = textFile(text)
  return { change: { kind: 'put', path: [name], entry }, content }
}

async function write(id: string, base: number, name: string, text: string, trees: Trees = bed.trees) {
  using publication = trees.begin(id)
  const { change, content } = put(name, text)
  return await publication.publish(base, [change], { contents: [content] })
}

async function read(id: string, name: string, revision?: number, trees: Trees = bed.trees): Promise<string | null> {
  const at = revision === undefined ? await trees.current(id) : await trees.at(id, revision)
  const blobs = trees.blobs(id)
  const entry = at === null ? null : await findEntry({ blobs }, at.root, [name])
  return entry?.type === 'file' ? String(await readPart(blobs, entry, 0, entry.size)) : null
}

const names = async (id: string) => {
  const all: string[] = []
  const now = await bed.trees.current(id)
  if (now) for await (const { name } of listEntries({ blobs: bed.trees.blobs(id) }, now.root)) all.push(name)
  return all
}

const filesOf = async (id: string) =>
  (await readdir(path.join(bed.folder, id), { recursive: true })).filter((name) => path.basename(name).length === 64)
const collecting = () => ({
  cell_id: bed.cell_id,
  db: bed.database.cell,
  clock: bed.clock,
  trees: bed.trees,
  log: pino({ level: 'silent' }),
  quarantine_days: 7,
})

test('a tree starts empty at revision 0, and each publication adds one revision', async () => {
  const id = await bed.open()
  assert.deepEqual([(await bed.trees.current(id))?.revision, await names(id)], [0, []])
  assert.equal((await write(id, 0, 'a', 'one')).revision, 1)
  assert.equal((await write(id, 1, 'a', 'one')).revision, 2, 'the same bytes are a revision too')
  const row = await bed.database.superuser.selectFrom('workspaces').select('tree_revision').where('id', '=', id).executeTakeFirstOrThrow()
  assert.deepEqual([Number(row.tree_revision), await read(id, 'a')], [2, 'one'])
})

test('of two publications on one base, in any process, one wins and the other learns the current revision', async () => {
  const id = await bed.open()
  const other = bed.second()
  for (let base = 0; base < 10; base++) {
    const all = await Promise.allSettled([write(id, base, 'a', `mine ${base}`), write(id, base, 'b', `theirs ${base}`, other)])
    const [lost] = all.filter((each) => each.status === 'rejected')
    assert.deepEqual(all.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
    assert.ok(lost?.reason instanceof TreeMoved)
    assert.equal(lost.reason.current_revision, base + 1)
  }
  await assert.rejects(write(id, 3, 'a', 'old'), TreeMoved)
  await assert.rejects(write(id, 11, 'a', 'early'), TreeMoved)
})

test('an earlier revision stays readable while it is kept', async () => {
  const id = await bed.open()
  for (const [base, text] of ['one', 'two', 'three'].entries()) await write(id, base, 'a', text)
  assert.deepEqual(
    [await read(id, 'a', 0), await read(id, 'a', 1), await read(id, 'a', 2), await read(id, 'a', 3)],
    [null, 'one', 'two', 'three'],
  )
  assert.equal(await bed.trees.at(id, 4), null)
  assert.equal((await bed.trees.at(id, 0))?.revision, 0)
})

test('a change that would exceed the limit is refused, and a change that shrinks the tree is not', async () => {
  const id = await bed.open()
  await write(id, 0, 'a', 'x'.repeat(100))
  const { superuser } = bed.database
  const ceiling = (disk_gib: number) =>
    superuser.updateTable('workspaces').set({ ceiling_disk_gib: disk_gib }).where('id', '=', id).execute()
  await ceiling(0)
  await assert.rejects(write(id, 1, 'b', 'y'), TreeFull)
  assert.equal((await write(id, 1, 'a', 'y')).revision, 2)
  await ceiling(1)
  assert.equal((await write(id, 2, 'b', 'y')).revision, 3)
})

test('every publication with an invalid file name is refused', async () => {
  const id = await bed.open()
  for (const name of ['', '.', '..', 'a/b', 'a\0', '\uD800', 'é'.repeat(128), 'x'.repeat(256)])
    await assert.rejects(write(id, 0, name, 'x'), { code: 'validation_failed', reason: 'invalid_path' }, JSON.stringify(name))
  for (const name of ['é'.repeat(127), 'x'.repeat(255), ' ', '-', '__proto__'])
    await write(id, (await bed.trees.current(id))?.revision ?? 0, name, name)
  assert.deepEqual(
    await names(id),
    [' ', '-', '__proto__', 'x'.repeat(255), 'é'.repeat(127)].sort((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))),
  )
})

test('a publication that fails before its commit changes nothing, and one that fails after it has taken effect', async () => {
  const id = await bed.open()
  await write(id, 0, 'a', 'one')
  for (const [point, expected] of [
    ['tree.T1', 'one'],
    ['tree.T2', 'two'],
  ] as const) {
    using _ = armFailpoint(point, () => {
      throw new Error('the process ends here')
    })
    await assert.rejects(write(id, 1, 'a', 'two'), /ends here/)
    assert.equal(await read(id, 'a', undefined, bed.second()), expected)
  }
})

test('collection removes everything that no revision references, and nothing else', async () => {
  const id = await bed.open()
  for (let base = 0; base < 5; base++) await write(id, base, 'a', `text ${base}`)
  await write(id, 5, 'b', 'stays')
  await assert.rejects(write(id, 0, 'a', 'published by nobody'), TreeMoved)
  const before_files = await filesOf(id)
  assert.equal(await collectTree(collecting(), id), 0, 'earlier revisions are kept for a while')
  bed.clock.ahead_ms += (LIMITS.tree.revisions_kept_seconds_default + LIMITS.tree.blob_grace_seconds + 60) * 1000
  const removed = await collectTree(collecting(), id)
  const left = await filesOf(id)
  assert.equal(left.length, before_files.length - removed)
  assert.equal(left.length, 4, 'a root, a page and two files')
  assert.deepEqual([await read(id, 'a'), await read(id, 'b'), await bed.trees.at(id, 3)], ['text 4', 'stays', null])
  assert.deepEqual(
    await readCollectable(bed.database.cell, bed.cell_id, bed.clock.now(), 1000, bed.trees.kept).then((all) => all.includes(id)),
    false,
  )
})

test('contents of a running publication and its base survive collections, however long it takes', async () => {
  const id = await bed.open()
  await write(id, 0, 'old', 'is in the base')
  using publication = bed.trees.begin(id)
  const { change, content } = put('new', 'was put long ago')
  await publication.put([content])
  bed.clock.ahead_ms += 10 * LIMITS.tree.blob_grace_seconds * 1000
  await collectTree(collecting(), id)
  assert.equal((await publication.publish(1, [change])).revision, 2)
  assert.deepEqual([await read(id, 'new'), await read(id, 'old')], ['was put long ago', 'is in the base'])
})

test('contents that are put again during their collection stay', async () => {
  const id = await bed.open()
  await write(id, 0, 'a', 'given up')
  await write(id, 1, 'a', 'other')
  bed.clock.ahead_ms += 3 * LIMITS.tree.blob_grace_seconds * 1000
  let published: Promise<unknown> = Promise.resolve()
  {
    // At this failpoint the roots are marked, and no blob is removed yet.
    using _ = armFailpoint('tree.T3', async () => {
      published = write(id, 2, 'a', 'given up')
      await published
    })
    await collectTree(collecting(), id)
  }
  await published
  assert.equal(await read(id, 'a'), 'given up')
})

test('concurrent publishers and a collector lose nothing: every acknowledged revision is readable', async () => {
  const id = await bed.open()
  const texts = Array.from({ length: 6 }, (_, i) => `text ${i}`) // few texts, so that old blobs are referenced again
  let collected = 0
  const stop = new AbortController()
  const collector = (async () => {
    while (!stop.signal.aborted) collected += await collectTree(collecting(), id)
  })()
  const expected = new Map<string, string>()
  const step = async (at: number) => {
    const [name, text] = [`f${at % 7}`, texts[at % texts.length] ?? '']
    await write(id, (await bed.trees.current(id))?.revision ?? 0, name, text)
    expected.set(name, text)
    for (const [each, was] of expected) assert.equal(await read(id, each), was, `${each} after step ${at}`)
    bed.clock.ahead_ms += (LIMITS.tree.blob_grace_seconds / 2) * 1000 // unused blobs age while the collector runs
  }
  const publisher = async (seed: number) => {
    for (let i = 0; i < 60; i++) await bed.trees.inWorkspaceQueue(id, () => step(i * seed))
  }
  try {
    await Promise.all([publisher(5), publisher(11)])
  } finally {
    stop.abort()
    await collector
  }
  assert.deepEqual([(await bed.trees.current(id))?.revision, collected > 0], [120, true])
})

test('the collector leaves a damaged tree alone and collects the others', async () => {
  const [damaged, sound] = [await bed.open(), await bed.open()]
  for (const id of [damaged, sound]) for (const [base, text] of ['one', 'two'].entries()) await write(id, base, 'a', text)
  const page = (await bed.trees.current(damaged))?.root.page?.digest ?? ''
  await bed.trees.blobs(damaged).delete(page)
  bed.clock.ahead_ms += 3 * LIMITS.tree.blob_grace_seconds * 1000
  const before_files = await filesOf(damaged)
  await collectTrees(collecting(), new AbortController().signal)
  assert.deepEqual([await filesOf(damaged), (await filesOf(sound)).length], [before_files, 3])
})

test('removing a tree removes its files, revisions and keys', async () => {
  const id = await bed.open()
  await write(id, 0, 'a', 'one')
  assert.equal((await readTreeBytes(bed.database.cell, bed.cell_id)).get(id), 3)
  await bed.trees.remove(id)
  await bed.trees.remove(id)
  assert.equal(await bed.trees.current(id), null)
  await assert.rejects(filesOf(id), { code: 'ENOENT' })
  assert.equal((await readTreeBytes(bed.database.cell, bed.cell_id)).get(id), undefined)
})

test('an orphan tree is removed after the quarantine, also across restarts; one of a deleted workspace is removed at once', async () => {
  const [stranger, returned, deleted, kept] = [randomUUID(), randomUUID(), await bed.open(), await bed.open()]
  for (const id of [stranger, returned]) await bed.trees.blobs(id).put([Buffer.from('of a lost history')])
  for (const id of [deleted, kept]) await write(id, 0, 'a', 'one')
  const { superuser } = bed.database
  await superuser
    .updateTable('workspaces')
    .set({ desired_state: 'deleted', observed_state: 'deleted', deleted_at: bed.clock.now() })
    .where('id', '=', deleted)
    .execute()
  const look = async (trees: Trees) => {
    await removeOrphanTrees({ ...collecting(), trees }, new AbortController().signal)
    const stored = await bed.trees.stored()
    return [stranger, returned, deleted, kept].map((id) => stored.includes(id))
  }
  assert.deepEqual(await look(bed.trees), [true, true, false, true])
  bed.clock.ahead_ms += 6.9 * DAY_MS
  assert.deepEqual(await look(bed.second()), [true, true, false, true])
  const id = await bed.open()
  await superuser.updateTable('trees').set({ collected_at: bed.clock.now() }).where('workspace_id', '=', id).execute()
  await rename(bed.trees.folder(returned), bed.trees.folder(id))
  assert.deepEqual(await look(bed.second()), [true, false, false, true])
  bed.clock.ahead_ms += 0.2 * DAY_MS
  assert.deepEqual(await look(bed.second()), [false, false, false, true])
  assert.ok((await bed.trees.stored()).includes(id))
  await assert.rejects(stat(path.join(bed.trees.folder(id), 'stranger')), { code: 'ENOENT' })
  assert.equal(await read(kept, 'a'), 'one')
})

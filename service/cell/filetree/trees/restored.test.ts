import assert from 'node:assert/strict'
import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { sql } from 'kysely'
import pino from 'pino'
import { dumpRows } from '../../../../tests/support/put-back.ts'
import { textFile, treesBed, type TreesBed } from '../../../../tests/support/trees.ts'
import { collectTree } from './collect.ts'
import { readPart } from './contents.ts'
import { adoptStoreRevisions } from './adopt-stores.ts'
import { removeOrphanTrees } from './orphans.ts'
import { findEntry } from './tree.ts'
import { TreeMoved } from './publish.ts'

const HOUR_MS = 3600_000
const DAY_MS = 24 * HOUR_MS

let bed: TreesBed
before(async () => {
  bed = await treesBed()
})
after(() => bed[Symbol.asyncDispose]())

const signal = new AbortController().signal
const context = () => ({
  cell_id: bed.cell_id,
  db: bed.database.cell,
  clock: bed.clock,
  trees: bed.trees,
  log: pino({ level: 'silent' }),
  quarantine_days: 7,
})

async function write(id: string, base: number, name: string, text: string): Promise<void> {
  using publication = bed.trees.begin(id)
  const { entry, content } = textFile(text)
  await publication.put([content])
  await publication.publish(base, [{ kind: 'put', path: [name], entry }])
}

async function read(id: string, name: string, revision?: number): Promise<string | null> {
  const at = revision === undefined ? await bed.trees.current(id) : await bed.trees.at(id, revision)
  const blobs = bed.trees.blobs(id)
  const entry = at === null ? null : await findEntry({ blobs }, at.root, [name])
  return entry?.type === 'file' ? String(await readPart(blobs, entry, 0, entry.size)) : null
}

const blobsOf = async (id: string) =>
  (await readdir(bed.trees.folder(id), { recursive: true })).filter((name) => path.basename(name).length === 64).length

async function fork(source: string): Promise<string> {
  const id = await bed.open()
  await sql`update trees set store_id = ${source}, root = s.root from (select root from trees where workspace_id = ${source}) s
    where workspace_id = ${id}`.execute(bed.database.superuser)
  return id
}

test('after a database restore a tree continues at its last acknowledged revision, and none of its blobs are collected', async () => {
  const id = await bed.open()
  await write(id, 0, 'a', 'of the dump')
  const putBack = await dumpRows(bed.database.superuser)
  await write(id, 1, 'b', 'since the dump')
  await write(id, 2, 'c', 'the last')
  bed.clock.ahead_ms += 2 * HOUR_MS
  await collectTree(context(), id)
  await putBack()
  await adoptStoreRevisions(context(), signal)
  assert.equal((await bed.trees.current(id))?.revision, 3)
  const row = await bed.database.superuser.selectFrom('workspaces').select('tree_revision').where('id', '=', id).executeTakeFirstOrThrow()
  assert.equal(Number(row.tree_revision), 3)
  assert.deepEqual([await read(id, 'b'), await read(id, 'c'), await read(id, 'c', 1)], ['since the dump', 'the last', null])
  bed.clock.ahead_ms += 2 * HOUR_MS
  await collectTree(context(), id)
  assert.equal(await read(id, 'c'), 'the last')
  await write(id, 3, 'd', 'one more')
  assert.equal(await read(id, 'd'), 'one more')
})

test('the collector records the last revision of a tree that has no record', async () => {
  const id = await bed.open()
  await write(id, 0, 'a', 'of an earlier version of Berth')
  const putBack = await dumpRows(bed.database.superuser)
  await write(id, 1, 'b', 'since')
  await rm(path.join(bed.trees.folder(id), 'revisions'), { recursive: true })
  await collectTree(context(), id)
  await putBack()
  await adoptStoreRevisions(context(), signal)
  assert.equal(await read(id, 'b'), 'since')
})

test('after a database restore no change reuses the number of an acknowledged revision', async () => {
  const id = await bed.open()
  const putBack = await dumpRows(bed.database.superuser)
  await write(id, 0, 'a', 'acknowledged')
  await putBack()
  await assert.rejects(write(id, 0, 'b', 'on the older tree'), (error) => error instanceof TreeMoved && error.current_revision === 1)
  assert.deepEqual([await read(id, 'a'), await read(id, 'b')], ['acknowledged', null])
})

test('if the last revision cannot be read, the row stays and the contents are kept for the quarantine', async () => {
  const id = await bed.open()
  await write(id, 0, 'a', 'of the dump')
  const putBack = await dumpRows(bed.database.superuser)
  await write(id, 1, 'b', 'since the dump')
  await putBack()
  const last = await bed.trees.lastRevisions(id).newest(id)
  assert.ok(last)
  await bed.trees.store(id).delete(last.root)
  const there = await blobsOf(id)
  await adoptStoreRevisions(context(), signal)
  assert.deepEqual([(await bed.trees.current(id))?.revision, await read(id, 'a')], [1, 'of the dump'])
  for (const days of [0.1, 6.8]) {
    bed.clock.ahead_ms += days * DAY_MS
    await collectTree(context(), id)
    assert.equal(await blobsOf(id), there)
  }
  await write(id, 1, 'c', 'life goes on')
  bed.clock.ahead_ms += 0.2 * DAY_MS
  await collectTree(context(), id)
  assert.ok((await blobsOf(id)) < there + 3)
  assert.deepEqual([await read(id, 'a'), await read(id, 'b'), await read(id, 'c')], ['of the dump', null, 'life goes on'])
})

test('a fork that the database does not know is kept for the quarantine, even if its source is deleted', async () => {
  const { superuser: db } = bed.database
  const source = await bed.open()
  await write(source, 0, 'a', 'shared')
  const child = await fork(source)
  await write(child, 0, 'b', 'of the fork')
  const last = await bed.trees.lastRevisions(source).newest(child)
  assert.ok(last)
  // Simulates a restored database whose dump was made before the fork.
  await db.deleteFrom('trees').where('workspace_id', '=', child).execute()
  await db.deleteFrom('workspaces').where('id', '=', child).execute()
  await adoptStoreRevisions(context(), signal)
  bed.clock.ahead_ms += 6 * DAY_MS
  await write(source, 1, 'a', 'later')
  await collectTree(context(), source)
  const is_there = () => bed.trees.store(source).has(last.root)
  assert.ok(await is_there())
  const deleted = { desired_state: 'deleted', observed_state: 'deleted', deleted_at: bed.clock.now() } as const
  await db.updateTable('workspaces').set(deleted).where('id', '=', source).execute()
  await bed.trees.remove(source)
  await removeOrphanTrees(context(), signal)
  assert.ok(await is_there())
  bed.clock.ahead_ms += 1.1 * DAY_MS
  await removeOrphanTrees(context(), signal)
  assert.ok(!(await bed.trees.stored()).includes(source))
})

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { LIMITS } from '../../../../contract/limits.ts'
import { textFile, treesBed, type TreesBed } from '../../../../tests/support/trees.ts'
import { createDiskReserve } from '../../../lib/disk-reserve.ts'
import { collectTrees } from './collect.ts'
import { TreeFull } from './full.ts'
import { createGrowth } from './growth.ts'
import { createTrees, type Trees } from './trees.ts'

let bed: TreesBed
before(async () => {
  bed = await treesBed()
})
after(() => bed[Symbol.asyncDispose]())

const blobs = async (id: string) =>
  (await readdir(path.join(bed.folder, id), { recursive: true })).filter((name) => path.basename(name).length === 64).length
const put = async (trees: Trees, id: string, base: number, name: string, text: string) => {
  using publication = trees.begin(id)
  const { entry, content } = textFile(text)
  return await publication.publish(base, [{ kind: 'put', path: [name], entry }], { contents: [content] })
}
const hours = (count: number) => void (bed.clock.ahead_ms += count * 3600_000)
const collect = () => {
  const { cell_id, database, clock, trees } = bed
  return collectTrees(
    { cell_id, db: database.cell, clock, trees, log: pino({ level: 'silent' }), quarantine_days: 7 },
    new AbortController().signal,
  )
}
const disk = (id: string, ceiling_disk_gib: number) =>
  bed.database.superuser.updateTable('workspaces').set({ ceiling_disk_gib }).where('id', '=', id).execute()

test('a refused change stores nothing, and contents stored ahead of it are collected after the grace time', async () => {
  const id = await bed.open()
  await put(bed.trees, id, 0, 'a', 'one')
  hours(2)
  await collect()
  const before = await blobs(id)
  await disk(id, 0)
  await assert.rejects(put(bed.trees, id, 1, 'b', 'two'), TreeFull)
  assert.equal(await blobs(id), before)
  await disk(id, 1)
  {
    using ahead = bed.trees.begin(id) // as when a tar is unpacked before its paths are checked
    for (let i = 0; i < 20; i++) await ahead.put([randomBytes(1000)])
  }
  assert.equal(await blobs(id), before + 20)
  hours(1.1)
  await collect()
  assert.equal(await blobs(id), before)
  assert.deepEqual(bed.trees.leftovers.due(), [])
})

test('a workspace may write a multiple of its disk within an hour; existing blobs and other workspaces do not count', async () => {
  const clock = { ms: 0, now: () => new Date(clock.ms), monotonic_ms: () => clock.ms }
  const reserve = createDiskReserve({ folder: '/', reserve_bytes: 0, clock })
  const growth = createGrowth(clock, reserve)
  const disk_bytes = 2 ** 30
  const most = LIMITS.tree.written_disks_per_hour_max * disk_bytes
  const take = async (id: string, bytes: number, stored: number) => {
    using taken = await growth.take(id, bytes, disk_bytes)
    taken.stored(stored)
  }
  await take('one', most, most)
  await assert.rejects(take('one', 1, 1), TreeFull)
  await take('two', most, 0)
  await take('two', most, most)
  clock.ms += (LIMITS.tree.blob_grace_seconds + 700) * 1000
  await take('one', most, most)
})

test('below the disk reserve trees cannot grow, but a change that only removes files succeeds', async () => {
  const facts = { free_bytes: 2 ** 30, total_bytes: 2 ** 40, free_files: 0, files: 0 }
  const reserve = createDiskReserve({ folder: '/', reserve_bytes: 2 ** 20, clock: bed.clock, read: async () => ({ ...facts }) })
  const trees = createTrees({ db: bed.database.cell, clock: bed.clock, folder: bed.folder, reserve })
  const id = await bed.open()
  await put(trees, id, 0, 'a', 'one')
  await put(trees, id, 1, 'b', 'two')
  facts.free_bytes = 2 ** 19
  hours(0.1)
  await assert.rejects(put(trees, id, 2, 'c', 'three'), { code: 'dependency_unavailable' })
  await assert.rejects(put(trees, id, 2, 'a', ''), { code: 'dependency_unavailable' }) // the earlier content is stored for an hour
  using publication = trees.begin(id)
  await assert.rejects(publication.put([Buffer.from('ahead')]), { code: 'dependency_unavailable' })
  assert.equal((await publication.publish(2, [{ kind: 'remove', path: ['a'] }])).revision, 3)
  facts.free_bytes = 2 ** 30
  hours(0.1)
  assert.equal((await put(trees, id, 3, 'c', 'three')).revision, 4)
})

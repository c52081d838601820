import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDiskReserve, type DiskFacts } from './disk-reserve.ts'

const MIB = 2 ** 20

function bench(given: Partial<DiskFacts> = {}) {
  const disk: DiskFacts = { free_bytes: 100 * MIB, total_bytes: 300 * MIB, free_files: 1000, files: 1000, ...given }
  let now_ms = 0
  let looks = 0
  const clock = { now: () => new Date(now_ms), monotonic_ms: () => now_ms }
  const read = async () => {
    looks += 1
    return { ...disk }
  }
  const reserve = createDiskReserve({ folder: '/nowhere', reserve_bytes: 60 * MIB, clock, read })
  return { disk, reserve, later: (ms: number) => void (now_ms += ms), looks: () => looks }
}

const REFUSED = { code: 'dependency_unavailable', reason: undefined }

test('a write that would leave less than the reserve is refused, and accepted when enough bytes are free', async () => {
  const { disk, reserve, later } = bench()
  using _fits = await reserve.take(40 * MIB)
  await assert.rejects(reserve.take(1), REFUSED)
  disk.free_bytes = 50 * MIB
  later(1000)
  assert.equal((await reserve.look()).is_short, true)
  await assert.rejects(reserve.take(0), REFUSED)
  disk.free_bytes = 200 * MIB
  later(1000)
  assert.equal((await reserve.look()).is_short, false)
  using _again = await reserve.take(40 * MIB)
  assert.equal(reserve.refused(), 2)
})

test('running writes count until they end', async () => {
  const { reserve } = bench()
  const first = await reserve.take(30 * MIB)
  await assert.rejects(reserve.take(20 * MIB), REFUSED)
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  using _second = await reserve.take(40 * MIB)
  await assert.rejects(reserve.take(1), REFUSED)
})

test('a disk without free inodes is short; a file system without an inode limit is not', async () => {
  await assert.rejects(bench({ free_files: 10 }).reserve.take(0), REFUSED)
  using _taken = await bench({ free_files: 0, files: 0 }).reserve.take(0)
})

test('many writes within a moment share one read of the disk', async () => {
  const { reserve, looks, later } = bench()
  for (let i = 0; i < 50; i++) (await reserve.take(0))[Symbol.dispose]()
  assert.equal(looks(), 1)
  later(250)
  await reserve.look()
  assert.equal(looks(), 2)
})

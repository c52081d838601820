import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { systemClock } from '../../../lib/clock.ts'
import { digestOf, openBlobFiles } from './blob-files.ts'

const OLD = new Date('2020-01-01T00:00:00Z')

async function bed() {
  const folder = await mkdtemp(path.join(tmpdir(), 'blobs-'))
  const files = openBlobFiles(path.join(folder, 'store'), systemClock)
  const placeOf = (digest: string) => path.join(folder, 'store', digest.slice(0, 2), digest)
  return { folder, files, placeOf, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) }
}

const unused = async (files: ReturnType<typeof openBlobFiles>, before: Date) => {
  const found: string[] = []
  for await (const digest of files.unusedSince(before)) found.push(digest)
  return found.sort()
}

test('put stores equal contents once, and get reads them whole or in part', async () => {
  await using world = await bed()
  const { files, placeOf } = world
  const contents = ['one', 'two', '', 'x'.repeat(5_000_000), 'one'].map((text) => Buffer.from(text))
  const digests = await files.put(contents)
  assert.deepEqual(digests, contents.map(digestOf))
  for (const [i, digest] of digests.entries()) assert.deepEqual(await files.get(digest), contents[i])
  assert.equal(String(await files.get(digestOf(Buffer.from('two')), { offset: 1 })), 'wo')
  assert.equal(String(await files.get(digestOf(Buffer.from('two')), { offset: 1, length: 1 })), 'w')
  assert.equal((await readdir(path.dirname(placeOf(digests[0] ?? '')))).length, 1)
  assert.deepEqual(await readdir(path.join(world.folder, 'store', 'tmp')), [])
  const [one = ''] = digests
  assert.equal(await files.has(one), true)
  await files.delete(one)
  await files.delete(one)
  assert.equal(await files.has(one), false)
})

test('get reports a missing, changed, truncated or swapped blob and never returns wrong bytes', async () => {
  await using world = await bed()
  const { files, placeOf } = world
  const [one = '', other = ''] = await files.put([Buffer.from('some content'), Buffer.from('other content')])
  const corrupt = { kind: 'corrupt', digest: one }
  const bytes = await readFile(placeOf(one))
  for (const at of [0, 5, bytes.length - 1]) {
    const changed = Buffer.from(bytes)
    changed[at] = (changed[at] ?? 0) ^ 1
    await writeFile(placeOf(one), changed)
    await assert.rejects(files.get(one), corrupt)
    await assert.rejects(files.get(one, { offset: 1, length: 2 }), corrupt)
  }
  await truncate(placeOf(one), 0)
  await assert.rejects(files.get(one), corrupt)
  await rename(placeOf(other), placeOf(one))
  await assert.rejects(files.get(one), corrupt)
  await assert.rejects(files.get(other), { kind: 'missing', digest: other })
})

test('putting a blob again counts as use, and deleteUnused deletes only unused blobs', async () => {
  await using world = await bed()
  const { files, placeOf } = world
  const digests = await files.put(['a', 'b', 'c'].map((text) => Buffer.from(text)))
  const [a = '', b = '', c = ''] = digests
  for (const digest of digests) await utimes(placeOf(digest), OLD, OLD)
  const before = new Date(Date.now() - 60_000)
  assert.deepEqual(await unused(files, before), [...digests].sort())
  await files.put([Buffer.from('b')])
  assert.deepEqual(await unused(files, before), [a, c].sort())
  assert.deepEqual(
    [await files.deleteUnused(a, before), await files.deleteUnused(b, before), await files.deleteUnused(a, before)],
    [true, false, true],
  )
  assert.deepEqual([await files.has(a), await files.has(b), await files.has(c)], [false, true, true])
})

test('dropLeftovers restores blobs of interrupted sweeps and deletes old temporary files; get reads a blob under a sweep', async () => {
  await using world = await bed()
  const { files, placeOf, folder } = world
  const [one = ''] = await files.put([Buffer.from('one')])
  const trash = path.join(folder, 'store', 'trash')
  await mkdir(trash)
  await rename(placeOf(one), path.join(trash, one))
  assert.equal(String(await files.get(one)), 'one')
  const half = path.join(folder, 'store', 'tmp', `${Date.now()}-half`)
  await writeFile(half, 'ha')
  await files.dropLeftovers(new Date(Date.now() - 60_000))
  assert.deepEqual([await files.has(one), await readdir(path.dirname(half))], [true, [path.basename(half)]])
  await rename(half, path.join(path.dirname(half), `${OLD.getTime()}-half`))
  await files.dropLeftovers(new Date(Date.now() - 60_000))
  assert.deepEqual(await readdir(path.dirname(half)), [])
})

test('concurrent writers and sweeps never lose a blob that was put last', async () => {
  await using world = await bed()
  const { files, placeOf } = world
  const contents = Array.from({ length: 40 }, (_, i) => Buffer.from(`content ${i}`))
  for (let round = 0; round < 25; round++) {
    const digests = await files.put(contents)
    await Promise.all(digests.map((digest) => utimes(placeOf(digest), OLD, OLD)))
    const before = new Date(Date.now() - 60_000)
    const sweep = Promise.all(digests.map((digest) => files.deleteUnused(digest, before)))
    const writer = Promise.all(contents.map((content) => files.put([content])))
    await Promise.all([sweep, writer])
    for (const [i, digest] of digests.entries()) assert.deepEqual(await files.get(digest), contents[i], `round ${round}`)
  }
})

// This test has its own small file system, which tenants fill.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pino from 'pino'
import { collectTrees } from '../../service/cell/filetree/trees/collect.ts'
import { systemClock } from '../../service/lib/clock.ts'
import { createDiskReserve } from '../../service/lib/disk-reserve.ts'
import { executionCalls } from '../gateway/support/executions.ts'
import { refusalOf, type Bench } from '../gateway/support/gateway.ts'
import { HOME, openTreeBench, treeCalls } from '../gateway/support/tree-calls.ts'
import { smallFileSystem, type SmallFileSystem } from '../support/file-systems.ts'
import { until } from '../support/processes.ts'
import { type World, world } from './support.ts'

const MIB = 2 ** 20
const RESERVE = 128 * MIB
/** The file system's own files, and writes between two readings. */
const ROUNDING = 4 * MIB

let disk: SmallFileSystem
let w: World
let bench: Bench
const { start, fresh, direct } = executionCalls(() => bench)
const { write, read, remove } = treeCalls(() => bench)
before(async () => {
  disk = smallFileSystem(300 / 1024)
  const reserve = createDiskReserve({ folder: disk.path, reserve_bytes: RESERVE, clock: systemClock })
  const [uploads_dir, trees_folder] = [join(disk.path, 'uploads'), join(disk.path, 'trees')]
  mkdirSync(uploads_dir)
  w = await world({ uploads_dir, reserve })
  bench = await openTreeBench({ trees_folder, reserve })
  direct()
})
after(async () => {
  await w[Symbol.asyncDispose]()
  await bench[Symbol.asyncDispose]()
  disk.close()
})

const free = () => {
  const { bavail, bsize } = statfsSync(disk.path)
  return bavail * bsize
}

function fromReserve(): Disposable {
  const file = join(disk.path, 'pg')
  writeFileSync(file, Buffer.alloc(16 * MIB), { flush: true })
  return { [Symbol.dispose]: () => rmSync(file, { force: true }) }
}

const SIZE = 1024 * MIB
const sha256 = createHash('sha256').update('of nothing that comes').digest('hex')
const beginUpload = async (as: string) => (await w.post('/v1/template-uploads', { size_bytes: SIZE, sha256 }, { as })).body.id as string
const send = (id: string, offset: number, bytes: number, as = w.a.key) =>
  fetch(`${w.base}/v1/template-uploads/${id}?offset=${offset}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${as}`, 'content-type': 'application/octet-stream' },
    body: new Uint8Array(bytes),
  })

async function fillByUploads(as: string): Promise<string> {
  const id = await beginUpload(as)
  let offset = 0
  for (const bytes of [64 * MIB, 8 * MIB, 2 * MIB])
    for (;;) {
      const response = await send(id, offset, bytes, as)
      const { error } = (await response.json()) as { error?: { code: string } }
      if (response.ok) offset += bytes
      else {
        assert.deepEqual([response.status, error?.code], [503, 'dependency_unavailable'])
        break
      }
    }
  return id
}

test('a key that uploads its maximum leaves the reserve; other calls, deletes and sign-ins go on, and deletes free the disk', async () => {
  const [id, running] = [await fillByUploads(w.a.key), await w.running('there already')]
  assert.ok(free() > RESERVE - ROUNDING, `${free()} bytes are left`)
  using postgres = fromReserve()
  await until(
    'the next look at the disk',
    30_000,
    async () => (await w.post('/v1/template-uploads', { size_bytes: 1, sha256 })).status === 503,
  )
  const refused = async (path: string, body: object) => {
    const answer = await w.post(path, body, { as: w.b.key })
    assert.deepEqual([path, answer.status, answer.body.error?.code], [path, 503, 'dependency_unavailable'])
    assert.equal(answer.headers.get('retry-after'), '10')
  }
  await refused('/v1/template-uploads', { size_bytes: 1, sha256 })
  await refused(`/v1/projects/${w.b.project_id}/secrets`, { name: 'S', value: 'v' })
  assert.equal((await w.get('/v1/workspaces', { as: w.b.key })).status, 200)
  assert.equal((await w.open('while it is full', {}, { as: w.b.key })).status, 202)
  assert.equal((await w.post(`/v1/workspaces/${running}/suspend`)).status, 202)
  const email = 'ada@people.test'
  const password = randomBytes(12).toString('hex')
  assert.equal((await w.post('/v1/auth/register', { email, password }, { as: null })).status, 202)
  assert.equal((await w.post('/v1/auth/login', { email, password }, { as: null })).status, 200)
  assert.equal((await w.call('DELETE', `/v1/template-uploads/${id}`)).status, 204)
  postgres[Symbol.dispose]()
  await until('another may upload again', 30_000, async () => {
    return (await w.post('/v1/template-uploads', { size_bytes: 1, sha256 }, { as: w.b.key })).status === 201
  })
})

test('a file-first workspace that writes its maximum leaves the reserve; reads and removals go on and free the disk', async () => {
  let written = 0
  let response: Response
  for (;;) {
    response = await write(`${HOME}/f${written}`, new Uint8Array(randomBytes(7 * MIB)))
    if (response.status !== 200) break
    written += 1
  }
  assert.equal(await refusalOf(response), '503 dependency_unavailable')
  assert.ok(written > 5 && free() > RESERVE - ROUNDING, `${free()} bytes are left after ${written} files`)
  using postgres = fromReserve()
  await until('the next look at the disk', 30_000, async () => (await write(`${HOME}/small`, 'x')).status === 503)
  assert.equal(await refusalOf(await start({ execution_id: fresh() })), '503 dependency_unavailable')
  assert.equal((await read(`${HOME}/f0`)).status, 200)
  for (let each = 0; each < written; each++) assert.equal((await remove(`${HOME}/f${each}`)).status, 204)
  postgres[Symbol.dispose]()
  bench.clock.ahead_ms += 3 * 3600_000
  const { cell_id, database, clock, trees } = bench
  const log = pino({ level: 'silent' })
  await collectTrees({ cell_id, db: database.cell, clock, trees, log, quarantine_days: 7 }, new AbortController().signal)
  assert.equal((await write(`${HOME}/again`, new Uint8Array(randomBytes(7 * MIB)))).status, 200)
})

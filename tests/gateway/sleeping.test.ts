import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import type { WorkspaceEntry } from '../../service/cell/machines/table.ts'
import { type Bench, openBench } from './support/gateway.ts'

let bench: Bench
let resident: WorkspaceEntry
let woken = 0
before(async () => {
  bench = await openBench()
  resident = bench.life.entry
  for (const path of ['/home/f', '/tmp/f']) bench.agent.files.set(path, Buffer.from('bytes'))
  Object.assign(bench.waking, {
    wake: () => {
      woken += 1
      bench.table.entries.set(bench.workspace_id, resident)
      return Promise.resolve()
    },
  })
})
beforeEach(() => {
  woken = 0
  bench.table.set(bench.workspace_id, { residency: 'hibernated', checkpoint_id: bench.cell_id, machine: null })
})
after(() => bench[Symbol.asyncDispose]())

const read = async (path: string) => {
  const answer = await bench.call('GET', `/files?path=${path}`)
  return [answer.status, answer.headers.get('x-served-from'), woken]
}

test('files of a hibernated workspace are read from its disk, as a tool call that wakes nothing', async () => {
  bench.table.touched.length = 0
  assert.deepEqual(await read('/home/f'), [200, 'disk', 0])
  assert.deepEqual(bench.table.touched, [`tool_call ${bench.workspace_id}`])
  const list = await bench.call('GET', '/files/list?path=/home')
  assert.deepEqual([list.status, list.headers.get('x-served-from'), woken], [200, 'disk', 0])
})

test('the machine answers for paths in memory and paths that are not on the disk', async () => {
  assert.deepEqual(await read('/tmp/f'), [200, null, 1])
  bench.table.set(bench.workspace_id, { residency: 'hibernated', checkpoint_id: bench.cell_id, machine: null })
  assert.deepEqual(await read('/home/none'), [404, null, 2])
})

test('the target of a path decides, not its spelling', async () => {
  const sleep = () => bench.table.set(bench.workspace_id, { residency: 'hibernated', checkpoint_id: bench.cell_id, machine: null })
  for (const path of ['/home/../tmp/f', '/./tmp/f', '//tmp//f']) {
    bench.agent.files.set(path, Buffer.from('bytes'))
    sleep()
    woken = 0
    assert.deepEqual(await read(path), [200, null, 1], path)
  }
  sleep()
  const list = await bench.call('GET', '/files/list?path=/home/..')
  assert.deepEqual([list.status, list.headers.get('x-served-from'), woken], [200, null, 2])
  sleep()
  bench.agent.files.set('/home/link', Buffer.from('bytes'))
  bench.agent.script = (_request, response) => {
    bench.agent.script = null
    const refusal = { code: 'conflict', message: 'In memory', details: { in_memory: true } }
    response.writeHead(409, { 'content-type': 'application/json' }).end(JSON.stringify(refusal))
  }
  assert.deepEqual(await read('/home/link'), [200, null, 3])
})

test('a disk that cannot be read wakes the machine', async () => {
  const { readDisk } = bench.disk_host
  bench.disk_host.readDisk = () => Promise.reject(new HostFailure('no_capacity', 'Too many', { retryable: true }))
  assert.deepEqual(await read('/home/f'), [200, null, 1])
  bench.disk_host.readDisk = readDisk
})

test('any other call wakes the machine', async () => {
  assert.equal((await bench.call('POST', '/exec', { json: { argv: ['a'] } })).status, 201)
  assert.equal(woken, 1)
})

test("a hint, a keepalive's end and the idle record are answered without a machine", async () => {
  assert.equal((await bench.call('POST', '/wake-hint', { json: {} })).status, 202)
  assert.equal((await bench.call('POST', '/keepalive', { json: { seconds: 0 } })).status, 200)
  assert.equal((await bench.call('GET', '/idle')).status, 200)
  assert.equal(woken, 0)
})

import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import type { DiskReadRequest } from '../../service/cell/host/hostd-disks.ts'
import { HostFailure, type HostFailureCode } from '../../service/cell/host/hostd.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let asked: DiskReadRequest[]
before(async () => {
  bench = await openBench()
})
beforeEach(() => {
  asked = []
  bench.table.set(bench.workspace_id, { observed_state: 'suspended', desired_state: 'suspended', machine: null, checkpoint_id: 'c1' })
  bench.table.touched.length = 0
  bench.agent.files.set('/home/user/f', Buffer.from('asleep'))
  bench.disk_host.readDisk = (request) => {
    asked.push(request)
    return Promise.resolve({ address: bench.agent.address, agent_key: 'agent-key', epoch: 3 })
  }
})
afterEach(() => {
  bench.agent.script = null
  bench.table.set(bench.workspace_id, { hold: null, ownership_epoch: 3, deleted_at: null })
})
after(() => bench[Symbol.asyncDispose]())

const FILE = '/files?path=%2Fhome%2Fuser%2Ff'
const STAT = '/files/stat?path=%2Fhome%2Fuser%2Ff'
const LIST = '/files/list?path=%2Fhome%2Fuser'
const SEARCH = '/files/search'
const READS = [FILE, STAT, LIST, SEARCH]
const readOf = (path: string) =>
  path === SEARCH ? bench.call('POST', path, { json: { path: '/', pattern: 'a' } }) : bench.call('GET', path)
const failing = (code: HostFailureCode) => () => Promise.reject(new HostFailure(code, 'no', { retryable: true }))

test('a file of a suspended workspace is read from its disk, which counts as no tool activity', async () => {
  const response = await bench.call('GET', FILE, { headers: { range: 'bytes=1-3' } })
  assert.deepEqual(
    [response.status, await response.text(), response.headers.get('x-served-from'), response.headers.get('content-range')],
    [206, 'sle', 'disk', 'bytes 1-3/6'],
  )
  assert.deepEqual(asked, [{ workspace_id: bench.workspace_id, tenant: bench.life.entry.organization_id, checkpoint_id: 'c1', layers: [] }])
  assert.deepEqual(bench.table.touched, [])
})

test('stat and list say that they come from the disk', async () => {
  for (const path of [STAT, LIST]) {
    const response = await bench.call('GET', path)
    assert.deepEqual([path, response.status, response.headers.get('x-served-from')], [path, 200, 'disk'])
  }
})

test('answers of a running workspace do not say so', async () => {
  bench.table.entries.set(bench.workspace_id, bench.life.entry)
  const response = await bench.call('GET', FILE)
  assert.deepEqual([response.status, response.headers.get('x-served-from'), asked], [200, null, []])
})

test("a refusal of the disk reader is passed on like an agent's", async () => {
  assert.equal(await refusalOf(await bench.call('GET', '/files?path=%2Fabsent')), '404 not_found/path_not_found')
})

test('a path that leads from the disk into memory is unavailable until the workspace is resumed', async () => {
  const refusal = {
    code: 'conflict',
    reason: 'in_memory',
    message: 'The path lies in the memory of the machine',
    details: { in_memory: true },
  }
  bench.agent.script = (request, response) => {
    request.resume()
    response.writeHead(409, { 'content-type': 'application/json' }).end(JSON.stringify(refusal))
  }
  for (const path of READS) {
    const { error } = (await (await readOf(path)).json()) as { error: { code: string; retryable: boolean; details: object } }
    assert.deepEqual([error.code, error.retryable, error.details], ['workspace_not_running', true, { reason: 'offline_unavailable' }], path)
  }
})

for (const [method, path, json] of [
  ['PUT', FILE],
  ['DELETE', FILE],
  ['POST', '/files/mkdir', { path: '/d' }],
  ['POST', '/files/move', { from: '/a', to: '/b' }],
  ['POST', '/files/patch', { path: '/a', content: '' }],
  ['GET', '/changes'],
  ['GET', '/exec/s1'],
  ['POST', '/exec', { argv: ['true'] }],
] as const) {
  test(`${method} ${path} is refused while the workspace is suspended`, async () => {
    const response = await bench.call(method, path, json === undefined ? {} : { json })
    assert.equal(await refusalOf(response), '409 workspace_not_running')
    assert.deepEqual(asked, [])
  })
}

test('the disk of a suspended full copy of a template is unavailable, and every other call gets its usual refusal', async () => {
  bench.table.set(bench.workspace_id, { disk_layout: 'legacy' })
  for (const path of READS) assert.equal(await refusalOf(await readOf(path)), '409 workspace_not_running/offline_unavailable')
  assert.equal(await refusalOf(await bench.call('GET', '/exec/s1')), '409 workspace_not_running')
  bench.table.set(bench.workspace_id, { observed_state: 'failed' })
  assert.equal(await refusalOf(await bench.call('GET', FILE)), '409 workspace_not_running')
  bench.table.set(bench.workspace_id, { disk_layout: 'layered' })
  assert.deepEqual(asked, [])
})

test('a token of an earlier epoch reads no disk', async () => {
  const response = await bench.call('GET', FILE, { token: await bench.token({ epoch: 2 }) })
  assert.deepEqual([await refusalOf(response), asked], ['409 stale_epoch', []])
})

test('during an operation the workspace is busy', async () => {
  bench.table.set(bench.workspace_id, { hold: { operation_id: bench.cell_id, operation_kind: 'resume', gate: 'closed' } })
  assert.equal(await refusalOf(await bench.call('GET', FILE)), '409 workspace_busy')
})

for (const code of ['unreachable', 'not_found', 'checkpoint_corrupt', 'start_failed'] as const) {
  test(`a host that says ${code} makes the disk unavailable`, async () => {
    bench.disk_host.readDisk = failing(code)
    for (const path of READS) {
      assert.equal(await refusalOf(await readOf(path)), '409 workspace_not_running/offline_unavailable')
    }
  })
}

test('too many concurrent disk readers are refused with offline_budget', async () => {
  bench.disk_host.readDisk = failing('no_capacity')
  for (const path of READS) {
    const response = await readOf(path)
    assert.equal(response.headers.get('retry-after'), '5')
    assert.equal(await refusalOf(response), '409 workspace_not_running/offline_budget')
  }
})

test('a reader that ended just before the call is replaced once', async () => {
  const { readDisk } = bench.disk_host
  let calls = 0
  bench.disk_host.readDisk = (request) => {
    calls += 1
    return calls === 1 ? Promise.resolve({ address: '/nowhere/socket', agent_key: 'gone', epoch: 1 }) : readDisk(request)
  }
  assert.equal((await bench.call('GET', STAT)).status, 200)
  assert.deepEqual([calls, asked[0]?.doubted_address], [2, '/nowhere/socket'])
})

test('a read that overlaps a resume of the workspace is answered with offline_changed', async () => {
  const { readDisk } = bench.disk_host
  for (const change of [{ observed_state: 'resuming' }, { ownership_epoch: 4 }, { checkpoint_id: 'c2' }] as const) {
    for (const path of [FILE, STAT, LIST]) {
      bench.table.set(bench.workspace_id, { observed_state: 'suspended', ownership_epoch: 3, checkpoint_id: 'c1' })
      bench.disk_host.readDisk = async (request) => {
        bench.table.set(bench.workspace_id, change)
        return readDisk(request)
      }
      assert.equal(await refusalOf(await bench.call('GET', path)), '503 dependency_unavailable/offline_changed')
    }
  }
  bench.table.set(bench.workspace_id, { observed_state: 'suspended', ownership_epoch: 3, checkpoint_id: 'c1' })
  bench.disk_host.readDisk = () => {
    bench.table.set(bench.workspace_id, { observed_state: 'running' })
    return failing('already_running')()
  }
  for (const path of READS) {
    bench.table.set(bench.workspace_id, { observed_state: 'suspended' })
    assert.equal(await refusalOf(await readOf(path)), '503 dependency_unavailable/offline_changed')
  }
})

test('a read that overlaps the deletion of the workspace is revoked', async () => {
  bench.disk_host.readDisk = () => {
    bench.table.set(bench.workspace_id, { deleted_at: new Date() })
    return failing('not_found')()
  }
  assert.equal(await refusalOf(await bench.call('GET', FILE)), '401 unauthenticated/revoked_workspace')
})

test('reads that used up the time of a window are refused until it ends', async () => {
  const { readDisk } = bench.disk_host
  bench.disk_host.readDisk = (request) => {
    bench.clock.ahead_ms += LIMITS.disk_read.busy_seconds_max * 1000
    return readDisk(request)
  }
  assert.equal((await bench.call('GET', STAT)).status, 200)
  bench.disk_host.readDisk = readDisk
  const response = await bench.call('GET', STAT)
  const seconds = Number(response.headers.get('retry-after'))
  assert.ok(seconds > LIMITS.disk_read.window_seconds - 30 && seconds <= LIMITS.disk_read.window_seconds, String(seconds))
  assert.equal(await refusalOf(response), '409 workspace_not_running/offline_budget')
  bench.clock.ahead_ms += LIMITS.disk_read.window_seconds * 1000
  assert.equal((await bench.call('GET', STAT)).status, 200)
})

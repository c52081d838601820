import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, beforeEach, test } from 'node:test'
import { HostFailure, type HostFailureCode } from '../../service/cell/host/hostd.ts'
import type { DiskReadRequest } from '../../service/cell/host/hostd-disks.ts'
import { FakeAgent } from './support/fake-agent.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
let reader: FakeAgent
let hosts: DiskReadRequest[]
let machines: Record<string, unknown>[]

const RESULT = { matches: [], truncated: false, stop_reason: null, files_scanned: 3, next_cursor: null }
const ON_DISK = { ...RESULT, files_scanned: 0, on_disk: true }
const WHOLE = { path: '/d', pattern: 'x', regex: false, case_insensitive: false, include: [], exclude: [] }
const ASKED = { ...WHOLE, max_matches: 200, max_file_bytes: 1 << 20, context_lines: 0 }

before(async () => {
  bench = await openBench()
  reader = await FakeAgent.start()
})
beforeEach(() => {
  hosts = []
  machines = []
  bench.agent.script = async (request, response) => {
    const body = JSON.parse(await text(request)) as Record<string, unknown>
    machines.push(body)
    say(response, 200, body['on_disk_after_ms'] === undefined ? { ...RESULT, files_scanned: 7 } : ON_DISK)
  }
  bench.disk_host.readDisk = (asked) => {
    hosts.push(asked)
    return Promise.resolve({ address: reader.address, agent_key: 'agent-key', epoch: 3 })
  }
  reader.script = (_request, response) => say(response, 200, RESULT)
})
after(async () => {
  await reader[Symbol.asyncDispose]()
  await bench[Symbol.asyncDispose]()
})

const say = (response: ServerResponse, status: number, body: object) =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
async function text(request: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}
const search = () => bench.call('POST', '/files/search', { json: { path: '/d', pattern: 'x' } })

test('a disk reader continues a search that its machine hands over, with the usual answer', async () => {
  const answer = await search()
  assert.deepEqual([answer.status, await answer.json(), answer.headers.get('x-served-from')], [200, RESULT, null])
  assert.deepEqual(machines, [{ ...ASKED, on_disk_after_ms: 150 }])
  assert.deepEqual(hosts, [
    { workspace_id: bench.workspace_id, tenant: bench.life.entry.organization_id, machine_epoch: 3, checkpoint_id: null, layers: [] },
  ])
})

test('a search that its machine completes calls no host', async () => {
  bench.agent.script = (request, response) => {
    request.resume()
    say(response, 200, RESULT)
  }
  assert.deepEqual([(await search()).status, hosts], [200, []])
})

for (const code of ['no_capacity', 'not_running', 'already_running', 'start_failed'] as HostFailureCode[]) {
  test(`where the host has no reader (${code}) the machine searches to the end`, async () => {
    bench.disk_host.readDisk = () => Promise.reject(new HostFailure(code, 'no', { retryable: true }))
    const answer = await search()
    assert.deepEqual([answer.status, await answer.json()], [200, { ...RESULT, files_scanned: 7 }])
    assert.deepEqual(machines, [{ ...ASKED, on_disk_after_ms: 150 }, ASKED])
  })
}

test('the machine completes a search that the disk reader refuses or does not answer', async () => {
  const refusal = { code: 'conflict', reason: 'in_memory', message: 'In memory', details: { in_memory: true } }
  const scripts: FakeAgent['script'][] = [
    (_request, response) => say(response, 409, refusal),
    (_request, response) => say(response, 200, { nonsense: true }),
    (request) => void request.socket.destroy(),
  ]
  for (const script of scripts) {
    reader.script = script
    assert.deepEqual(await (await search()).json(), { ...RESULT, files_scanned: 7 })
  }
})

test("a disk reader's answer does not count once the machine has died", async () => {
  const { life } = bench
  reader.script = () => life.end('died')
  assert.equal(await refusalOf(await search()), '503 dependency_unavailable')
  assert.equal(machines.length, 1)
})

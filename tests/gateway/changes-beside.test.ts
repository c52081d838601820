import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, beforeEach, test } from 'node:test'
import { HostFailure } from '../../service/cell/host/hostd.ts'
import { FakeAgent } from './support/fake-agent.ts'
import { type Bench, openBench } from './support/gateway.ts'

let bench: Bench
let reader: FakeAgent
let machines: string[]
let paths: unknown[]

const change = (path: string, facts: object) => ({ path, change: 'added', type: 'file', size: 0, mode: '0000', ...facts })
const DIRECTORY = change('/d', { type: 'directory', size: 40, mode: '0755' })
const WHOLE = [DIRECTORY, change('/d/a', { size: 7, mode: '4711' }), change('/d/b', { type: 'symlink', size: 3, mode: '0777' })]
const BARE = [DIRECTORY, change('/d/a', { on_disk: true }), change('/d/b', { type: 'symlink', on_disk: true })]
const A = { type: 'file', size: 7, mode: '4711' }
const B = { type: 'symlink', size: 3, mode: '0777' }

before(async () => {
  bench = await openBench()
  reader = await FakeAgent.start()
  bench.disk_host.readDisk = () => Promise.resolve({ address: reader.address, agent_key: 'agent-key', epoch: 3 })
})
beforeEach(() => {
  machines = []
  paths = []
  bench.agent.script = (request, response) => {
    const { search, searchParams } = new URL(request.url ?? '', 'http://agent')
    machines.push(search)
    const summary =
      searchParams.get('summary') === 'true' ? { added: 3, modified: 0, metadata: 0, deleted: 0, replaced: 0, truncated: false } : null
    say(response, { changes: summary !== null ? [] : searchParams.has('on_disk_from') ? BARE : WHOLE, next_cursor: 'next', summary })
  }
  answerFacts([A, B])
})
after(async () => {
  await reader[Symbol.asyncDispose]()
  await bench[Symbol.asyncDispose]()
})

const say = (response: ServerResponse, body: object) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
function answerFacts(facts: unknown[]): void {
  reader.script = async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part)
    paths.push((JSON.parse(Buffer.concat(parts).toString()) as { paths: unknown }).paths)
    say(response, { facts })
  }
}
const changes = async (query: string) => {
  const answer = await bench.call('GET', `/changes?${query}`)
  assert.equal(answer.status, 200)
  return (await answer.json()) as { data: unknown[]; next_cursor: string | null }
}

test('the disk reader on the host reads the file facts of a large page', async () => {
  assert.deepEqual(await changes('limit=1000'), { data: WHOLE, next_cursor: 'next', summary: null })
  assert.deepEqual([machines, paths], [['?limit=1000&hash=false&summary=false&on_disk_from=200'], [['/d/a', '/d/b']]])
})

test('a file that was removed after the machine listed it is no change', async () => {
  answerFacts([null, B])
  assert.deepEqual((await changes('limit=1000')).data, [WHOLE[0], WHOLE[2]])
})

test('the machine alone answers small pages, digests and summaries', async () => {
  for (const query of ['limit=199', 'limit=1000&hash=true', 'limit=1000&summary=true']) await changes(query)
  assert.deepEqual([machines.filter((search) => search.includes('on_disk_from')), paths], [[], []])
})

test('without a disk reader, or with one that answers nonsense, the machine lists the page itself', async () => {
  for (const facts of [[], [A], [A, B, B], [A, { type: 'file' }], 'nonsense' as unknown as []]) {
    answerFacts(facts)
    assert.deepEqual((await changes('limit=1000')).data, WHOLE, JSON.stringify(facts))
  }
  bench.disk_host.readDisk = () => Promise.reject(new HostFailure('no_capacity', 'no', { retryable: true }))
  assert.deepEqual((await changes('limit=1000')).data, WHOLE)
})

test('a machine that omits facts without a request to do so, or in another shape, is 500', async () => {
  for (const on_disk of [true, false, 1])
    for (const query of ['limit=10', 'limit=1000']) {
      const left = [change('/a', { on_disk })]
      bench.agent.script = (_request, response) => say(response, { changes: left, next_cursor: null, summary: null })
      assert.equal((await bench.call('GET', `/changes?${query}`)).status, 500, `${query} ${on_disk}`)
    }
})

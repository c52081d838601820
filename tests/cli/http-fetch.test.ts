import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { httpFetch } from '../../cli/src/http-fetch.ts'

let server: Server
let url: string
let answer: (request: IncomingMessage, response: ServerResponse) => void
before(async () => {
  server = createServer((request, response) => answer(request, response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})
after(() => server.close())

const streamOf = (...parts: string[]) => new Blob(parts).stream()

test("every kind of body arrives unchanged, and the answer is read as by the platform's fetch", async () => {
  answer = (request, response) => {
    response.writeHead(201, { 'x-seen': `${request.method ?? ''} ${request.headers['content-length'] ?? 'streamed'}` })
    request.pipe(response)
  }
  for (const [body, seen] of [
    ['{"a":1}', 'POST 7'],
    [new TextEncoder().encode('{"a":1}'), 'POST 7'],
    [new Blob(['{"a":1}']), 'POST 7'],
    [streamOf('{"a"', ':1}'), 'POST streamed'],
  ] as const) {
    const response = await httpFetch(url, { method: 'POST', body, duplex: 'half' })
    assert.deepEqual([response.status, response.ok, response.headers.get('X-Seen'), await response.json()], [201, true, seen, { a: 1 }])
  }
  const again = async () => httpFetch(url, { method: 'PUT', body: 'bytes' })
  assert.equal(new TextDecoder().decode(await (await again()).arrayBuffer()), 'bytes')
  const parts: Uint8Array[] = []
  for await (const part of (await again()).body ?? []) parts.push(part)
  assert.equal(Buffer.concat(parts).toString(), 'bytes')
  assert.equal((await again()).headers.has('location'), false)
})

test('a redirect is refused, since the credential would go with it', async () => {
  answer = (_request, response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()
  await assert.rejects(httpFetch(url), /redirects with 307/)
})

test('a missing server, a cut answer and an abort signal are errors', async () => {
  await assert.rejects(httpFetch('http://127.0.0.1:1/'), { code: 'ECONNREFUSED' })
  answer = (_request, response) => {
    response.writeHead(200, { 'content-length': '10' }).write('half')
    response.socket?.end()
  }
  const half = await httpFetch(url)
  await assert.rejects(half.text(), { code: 'ECONNRESET' })
  const streamed = await httpFetch(url)
  await assert.rejects(async () => {
    for await (const _part of streamed.body ?? []);
  })
  answer = (_request, response) => void response.writeHead(200).write('begun')
  const leaving = new AbortController()
  const begun = await httpFetch(url, { signal: leaving.signal })
  const read = begun.text()
  leaving.abort()
  await assert.rejects(read)
  await assert.rejects(httpFetch(url, { signal: leaving.signal }), { name: 'AbortError' })
})

test('a refusal that arrives during an upload is read, and the rest of the body is not sent', async () => {
  answer = (_request, response) => response.writeHead(413).end('too large')
  let asked = 0
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      asked += 1
      controller.enqueue(new Uint8Array(65_536))
    },
  })
  const response = await httpFetch(url, { method: 'PUT', body: endless, duplex: 'half' })
  assert.deepEqual([response.status, response.ok, await response.text()], [413, false, 'too large'])
  const before_end = asked
  await setTimeout(100)
  assert.equal(asked, before_end)
})

test('one connection serves calls in sequence, including those without a body', async () => {
  const seen = new Set<unknown>()
  answer = (request, response) => {
    seen.add(request.socket)
    response.writeHead(204).end()
  }
  for (let n = 0; n < 3; n += 1) assert.equal((await httpFetch(url, { method: 'DELETE' })).status, 204)
  assert.equal(seen.size, 1)
})

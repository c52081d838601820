import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LIMITS } from '../../contract/limits.ts'
import { entryOf, tarOf } from '../support/tars.ts'
import { type Bench, openBench, refusalOf } from './support/gateway.ts'

let bench: Bench
before(async () => {
  bench = await openBench()
})
after(() => bench[Symbol.asyncDispose]())

const TAR = tarOf(entryOf('a', 'content'))
const put = (body: Uint8Array<ArrayBuffer> | ReadableStream, query = '') =>
  bench.call('PUT', `/files/tar?path=/home/user/d${query}`, {
    body,
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  })
const get = () => bench.call('GET', '/files/tar?path=/home/user/d')

test("a machine's tar is passed on as it arrives, and one that breaks off does not look complete", async () => {
  bench.agent.script = (request, response) => {
    assert.equal(request.url, '/files/tar?path=%2Fhome%2Fuser%2Fd&sparse=true')
    response.writeHead(200, { 'content-type': 'application/x-tar' }).write(TAR.subarray(0, 700))
    response.end(TAR.subarray(700))
  }
  const answer = await get()
  assert.deepEqual(
    [answer.status, answer.headers.get('content-type'), answer.headers.get('x-tree-revision')],
    [200, 'application/x-tar', null],
  )
  assert.ok(TAR.equals(Buffer.from(await answer.arrayBuffer())))
  bench.agent.script = (request, response) => {
    response.writeHead(200, { 'content-type': 'application/x-tar' }).write(TAR.subarray(0, 700), () => request.socket.destroy())
  }
  await assert.rejects(async () => (await get()).arrayBuffer())
})

test('a client whose program does not know holes can ask for a tar without them', async () => {
  bench.agent.script = (request, response) => {
    assert.equal(request.url, '/files/tar?path=%2Fhome%2Fuser%2Fd&sparse=false')
    response.writeHead(200, { 'content-type': 'application/x-tar' }).end(TAR)
  }
  const answer = await bench.call('GET', '/files/tar?path=/home/user/d&sparse=false')
  assert.ok(TAR.equals(Buffer.from(await answer.arrayBuffer())))
})

test('a tar is passed to the machine with its parameters, and its acknowledgement is returned', async () => {
  const result = { path: '/home/user/d', entries: 1, bytes: 7, durable: true }
  const seen: Buffer[] = []
  bench.agent.script = (request, response) => {
    assert.equal(request.url, '/files/tar?path=%2Fhome%2Fuser%2Fd&create_parents=true&links_out=false')
    request.on('data', (piece: Buffer) => seen.push(piece)).on('end', () => response.end(JSON.stringify(result)))
  }
  const answer = await put(new Uint8Array(TAR), '&create_parents=true')
  assert.deepEqual([answer.status, await answer.json(), TAR.equals(Buffer.concat(seen))], [200, result, true])
})

test('a refusal by the machine is passed on with the entry that caused it', async () => {
  bench.agent.script = (request, response) => {
    request.resume().on('end', () => {
      response.writeHead(422, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ code: 'validation_failed', reason: 'invalid_path', message: 'No', details: { path: '../x' } }))
    })
  }
  const answer = await put(new Uint8Array(TAR))
  const { error } = (await answer.clone().json()) as { error: { details: object } }
  assert.deepEqual(
    [await refusalOf(answer), error.details],
    ['422 validation_failed/invalid_path', { reason: 'invalid_path', path: '../x' }],
  )
})

test('a tar that is too large by its header or its bytes is refused', async () => {
  bench.agent.script = (request) => void request.resume()
  const piece = new Uint8Array(8 << 20)
  let sent = 0
  const endless = new ReadableStream({
    pull(controller) {
      sent += piece.length
      if (sent > LIMITS.tar.upload_bytes_max + piece.length) controller.close()
      else controller.enqueue(piece)
    },
  })
  assert.equal(await refusalOf(await put(endless)), '413 payload_too_large')
})

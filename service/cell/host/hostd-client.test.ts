import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../../../tests/support/processes.ts'
import { HostFailure, type MachineHost } from './hostd.ts'
import { connectHostd } from './hostd-client.ts'
import { workspaceSubject } from './subject.ts'
import { patience } from '../../../tests/support/patience.ts'

const SPEAKER = { subject: workspaceSubject('w'), operation_id: 'o', step: 's', epoch: 1, fence: 1 }

const PATIENT = { start: 60_000, restore: 60_000, checkpoint: 60_000, layer: 60_000, remove: 60_000, quick: 20_000 }

/** A host behind a socket with scripted answers. */
async function withHost(listener: RequestListener, use: (host: MachineHost) => Promise<void>, deadlines = PATIENT): Promise<void> {
  const dir = mkdtempSync('/tmp/berth-link-')
  const server = createServer(listener)
  const socket = join(dir, 'hostd.sock')
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  const host = connectHostd(socket, deadlines)
  try {
    await use(host)
  } finally {
    await host.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    rmSync(dir, { recursive: true })
  }
}

const answering =
  (status: number, body: string): RequestListener =>
  (request, response) => {
    request.resume()
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(body)
  }

async function failureOf(work: Promise<unknown>): Promise<[string, boolean, Record<string, unknown>]> {
  const error = await work.then(
    () => undefined,
    (cause: unknown) => cause,
  )
  assert.ok(error instanceof HostFailure)
  return [error.code, error.retryable, error.details]
}

test('a refusal keeps its code, retryability and details', async () => {
  const refusal = { code: 'no_space', message: 'full', retryable: true, details: { free_bytes: 1 } }
  await withHost(answering(507, JSON.stringify(refusal)), async (host) => {
    assert.deepEqual(await failureOf(host.stop(SPEAKER)), ['no_space', true, { free_bytes: 1 }])
  })
})

test('an unknown code counts as internal, and an answer without a code as invalid', async () => {
  await withHost(answering(500, JSON.stringify({ code: 'brand_new', message: 'x', retryable: false })), async (host) => {
    assert.deepEqual(await failureOf(host.stop(SPEAKER)), ['internal', false, {}])
  })
  for (const body of ['', '[]', '"text"', '{"code":1}']) {
    await withHost(answering(500, body), async (host) =>
      assert.deepEqual(await failureOf(host.stop(SPEAKER)), ['invalid_answer', false, {}]),
    )
  }
})

test('an answer of the wrong shape is refused', async () => {
  for (const body of ['{}', 'not json', '{"workspace_id":"w","address":"evil.example:80"}']) {
    await withHost(answering(200, body), async (host) => {
      const request = { ...SPEAKER, resources: { cpu_millis: 1, memory_mib: 1, disk_gib: 1 }, hostname: 'h', layers: [] }
      assert.deepEqual(await failureOf(host.start(request)), ['invalid_answer', false, {}])
      assert.deepEqual(await failureOf(host.inventory()), ['invalid_answer', false, {}])
    })
  }
})

test('a missing host, a broken connection and a truncated answer are all unreachable', async () => {
  assert.deepEqual(await failureOf(connectHostd('/nonexistent/hostd.sock').inventory()), ['unreachable', true, {}])
  await withHost(
    (request) => void request.socket.destroy(),
    async (host) => assert.deepEqual(await failureOf(host.stop(SPEAKER)), ['unreachable', true, {}]),
  )
  const half: RequestListener = (_, response) => {
    response.writeHead(200, { 'content-length': 100 })
    response.write('{"half":')
    setImmediate(() => response.destroy())
  }
  await withHost(half, async (host) => assert.deepEqual(await failureOf(host.stop(SPEAKER)), ['unreachable', true, {}]))
})

test('events arrive as written, across blank lines and split lines, and end with the signal', async () => {
  const event = (seq: number) =>
    JSON.stringify({ seq, boot_id: 'b', kind: 'died', subject: workspaceSubject('w'), epoch: 1, fence: 1, reason: 'killed', at: '' })
  const asked: (string | undefined)[] = []
  const listener: RequestListener = (request, response) => {
    asked.push(request.url)
    response.writeHead(200)
    const text = `\n${event(8)}\n\n${event(9)}\n`
    response.write(text.slice(0, 20))
    setImmediate(() => response.write(text.slice(20)))
  }
  await withHost(listener, async (host) => {
    const controller = new AbortController()
    const seen: number[] = []
    for await (const { seq } of host.events(7, controller.signal)) {
      seen.push(seq)
      if (seq === 9) controller.abort()
    }
    assert.deepEqual([seen, asked], [[8, 9], ['/events?after=7']])
  })
})

/** A host whose restores block until released, and that answers all else at once. */
function slowRestores() {
  const held: (() => void)[] = []
  const listener: RequestListener = (request, response) => {
    request.resume()
    const answer = () => response.end('{"machines":[]}')
    if (request.url === '/machines/restore') held.push(answer)
    else answer()
  }
  return { listener, held }
}

const RESTORE = { ...SPEAKER, resources: { cpu_millis: 1, memory_mib: 1, disk_gib: 1 }, hostname: 'h', checkpoint_id: 'c' }

test('slow restores do not delay quick calls', { timeout: patience(10_000) }, async () => {
  const { listener, held } = slowRestores()
  await withHost(listener, async (host) => {
    const restores = Array.from({ length: 200 }, () => failureOf(host.restore(RESTORE)))
    assert.deepEqual(await host.stats(), [])
    const more = () => held.splice(0).forEach((letGo) => letGo())
    const letting = setInterval(more, 5)
    for (const refused of await Promise.all(restores)) assert.equal(refused[0], 'invalid_answer') // the scripted answer arrived
    clearInterval(letting)
  })
})

test('the deadline of a call that waits for a connection starts with the connection', { timeout: patience(20_000) }, async () => {
  const { listener, held } = slowRestores()
  const deadlines = { ...PATIENT, quick: 100, restore: 1500 }
  await withHost(
    listener,
    async (host) => {
      const first = Array.from({ length: 64 }, () => failureOf(host.restore(RESTORE)))
      const last = failureOf(host.restore(RESTORE))
      for (const [code] of await Promise.all(first)) assert.equal(code, 'unreachable')
      await until('the last is asked', 5000, () => held.length === 65)
      held.at(-1)?.()
      assert.equal((await last)[0], 'invalid_answer')
    },
    deadlines,
  )
})

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { attach, type AttachEvent, type Attached } from '../support/attached.ts'
import { type Client, createClient, ndjson, type OpenedWorkspace, send } from '../support/client.ts'
import { type CuttingProxy, openCuttingProxy } from '../support/cutting-proxy.ts'
import { type Service, startService } from '../support/service.ts'

let service: Service
let client: Client
before(async () => {
  service = await startService()
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const LINES = 60_000
const GATHER_MS = 240_000
/** Numbered lines on both streams, for some seconds. */
const WRITER = `import sys, time
for i in range(${LINES}):
    sys.stdout.write('%07d out\\n' % i)
    if i % 3 == 0: sys.stderr.write('%07d err\\n' % i)
    if i % 200 == 0:
        sys.stdout.flush()
        time.sleep(0.02)
`
const lines = (word: string, every: number, end = '\n') =>
  Array.from({ length: Math.ceil(LINES / every) }, (_, i) => `${String(i * every).padStart(7, '0')} ${word}${end}`).join('')
const digest = (text: string | Buffer) => createHash('sha256').update(text).digest('hex')

type Streams = Record<string, { at: number; hash: ReturnType<typeof createHash> }>

/** Follows a session through whatever happens to its connections: each byte must come once, at its offset. */
async function gather(
  names: string[],
  connected: (streams: Streams, token: string) => Promise<AsyncIterable<AttachEvent>>,
  workspace: OpenedWorkspace,
  seen: (bytes: number) => void,
) {
  const streams: Streams = Object.fromEntries(names.map((name) => [name, { at: 0, hash: createHash('sha256') }]))
  let token = workspace.token
  const reasons = new Set<string>()
  for (const deadline_ms = performance.now() + GATHER_MS; performance.now() < deadline_ms;) {
    try {
      for await (const event of await connected(streams, token)) {
        if (event.type === 'exit') return { streams, exit: event, reasons }
        if (event.type === 'error') {
          reasons.add(event.error?.code ?? '')
          token = await client.token(workspace.id)
        }
        if (event.type !== 'output') continue
        const stream = streams[event.stream ?? 'terminal']
        assert.ok(stream)
        assert.equal(event.offset, stream.at, 'a byte was lost or came twice')
        const data = Buffer.from(event.data ?? '', 'base64')
        stream.hash.update(data)
        stream.at += data.length
        seen(stream.at)
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      reasons.add('cut')
    }
    await new Promise((resolve) => setTimeout(resolve, 20)) // as a client does before it connects again
  }
  throw new Error(`the session did not end: ${[...reasons].join(', ')}`)
}

/** The gateway is killed, ended in order, and the workspace suspended and resumed, as the bytes come in. */
function troubles(workspace: OpenedWorkspace, bytes: number) {
  const steps = [
    { at: bytes * 0.15, happen: () => service.kill9('cell').then(() => service.ready()) },
    {
      at: bytes * 0.4,
      happen: async () => {
        for (const verb of ['suspend', 'resume']) {
          const { state } = await client.operate(`/v1/workspaces/${workspace.id}/${verb}`)
          assert.equal(state, 'succeeded')
        }
      },
    },
    { at: bytes * 0.7, happen: () => service.kill9('cell').then(() => service.ready()) },
  ]
  let last: Promise<unknown> = Promise.resolve()
  return {
    seen(at: number) {
      while (steps[0] && steps[0].at <= at) {
        const step = steps.shift()
        last = last.then(() => step?.happen())
      }
    },
    async over() {
      await last
      assert.equal(steps.length, 0)
    },
  }
}

const KINDS: {
  name: string
  begin: (workspace: OpenedWorkspace) => Promise<unknown>
  streams: Record<string, string>
  connected: (proxy: CuttingProxy, id: string) => (streams: Streams, token: string) => Promise<AsyncIterable<AttachEvent>>
}[] = [
  {
    name: 'attached to a command',
    begin: (workspace) => client.tool(workspace, '/exec', { json: { session_id: 'x', argv: ['python3', '-c', WRITER] } }),
    streams: { stdout: lines('out', 1), stderr: lines('err', 3) },
    connected: (proxy, id) => (at, token) =>
      attach(`${proxy.url}/v1/workspaces/${id}/exec/x/attach?stdout_offset=${at['stdout']?.at}&stderr_offset=${at['stderr']?.at}`, {
        token,
      }),
  },
  {
    name: 'following a command as NDJSON',
    begin: (workspace) => client.tool(workspace, '/exec', { json: { session_id: 'x', argv: ['python3', '-c', WRITER] } }),
    streams: { stdout: lines('out', 1), stderr: lines('err', 3) },
    connected: (proxy, id) => async (at, token) => {
      const query = `stdout_offset=${at['stdout']?.at}&stderr_offset=${at['stderr']?.at}`
      const response = await send(`${proxy.url}/v1/workspaces/${id}/exec/x/output?${query}`, { token })
      if (response.statusCode !== 200) return refused(response)
      return ndjson(response) as AsyncIterable<AttachEvent>
    },
  },
  {
    name: 'attached to a terminal',
    begin: (workspace) =>
      client.tool(workspace, '/pty', { json: { session_id: 'x', argv: ['python3', '-c', WRITER.replace('sys.stderr.write', 'len')] } }),
    streams: { terminal: lines('out', 1, '\r\n') },
    connected: (proxy, id) => (at, token) =>
      attach(`${proxy.url}/v1/workspaces/${id}/pty/x/attach?offset=${at['terminal']?.at}`, { token }),
  },
]
async function* refused(response: AsyncIterable<Buffer>): AsyncGenerator<AttachEvent> {
  let text = ''
  for await (const chunk of response) text += chunk.toString()
  yield { type: 'error', ...(JSON.parse(text) as object) }
}
for (const { name, begin, streams, connected } of KINDS) {
  test(
    `whoever is ${name} loses no byte and gets none twice: cut connections, a killed gateway, suspend and resume`,
    { timeout: 300_000 },
    async (t) => {
      const workspace = await client.open(`exact ${name}`)
      const proxy = await openCuttingProxy(workspace.endpoint, { bytes_max: 60_000 })
      t.diagnostic(`BERTH_TEST_SEED=${proxy.seed}`)
      await begin(workspace)
      const [first = ''] = Object.values(streams)
      const trouble = troubles(workspace, first.length)
      const got = await gather(Object.keys(streams), connected(proxy, workspace.id), workspace, trouble.seen)
      await trouble.over()
      for (const [stream, text] of Object.entries(streams)) {
        assert.deepEqual(
          [stream, got.streams[stream]?.at, got.streams[stream]?.hash.digest('hex')],
          [stream, text.length, digest(text)],
          `seed ${proxy.seed}`,
        )
      }
      assert.ok(proxy.cuts() > 10, `only ${proxy.cuts()} cuts`)
      t.diagnostic(`${proxy.cuts()} cuts; ${[...got.reasons].join(', ')}`)
      assert.equal(got.exit['exit_code'], 0)
      proxy.close()
      await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
    },
  )
}

const attached = (workspace: OpenedWorkspace, id: string, query = '', token = workspace.token) =>
  attach(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/${id}/attach${query}`, { token })
async function sleeping(key: string): Promise<{ workspace: OpenedWorkspace; stream: Attached }> {
  const workspace = await client.open(key)
  await client.tool(workspace, '/exec', { json: { session_id: 's', argv: ['sh', '-c', 'echo ready; exec sleep 1000'] } })
  const stream = await attached(workspace, 's')
  await stream.until(/ready/)
  return { workspace, stream }
}
async function ended(stream: Attached): Promise<unknown[]> {
  const events = await stream.rest()
  const { code } = await stream.closed
  return [code, events.at(-1)?.type, events.at(-1)?.error?.code]
}

test('a suspend closes attached streams with 4409 stale_epoch, a delete with 4410', { timeout: 180_000 }, async () => {
  const { workspace, stream } = await sleeping('ends')
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  assert.deepEqual(await ended(stream), [4409, 'error', 'stale_epoch'])
  assert.deepEqual(await ended(await attached(workspace, 's')), [4409, 'error', 'stale_epoch'])
  await client.operate(`/v1/workspaces/${workspace.id}/resume`)
  const again = await attached(workspace, 's', '', await client.token(workspace.id))
  await again.until(/ready/)
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
  assert.deepEqual(await ended(again), [4410, 'error', 'not_found'])
})

test('a killed engine closes attached streams with 4409 workspace_not_running', { timeout: 180_000 }, async () => {
  const { workspace, stream } = await sleeping('killed')
  await service.kill_machine(workspace.id)
  assert.deepEqual(await ended(stream), [4409, 'error', 'workspace_not_running'])
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test("a workspace's token does not attach to another workspace", { timeout: 180_000 }, async () => {
  const { workspace, stream } = await sleeping('victim')
  const other = await client.open('attacker')
  assert.deepEqual(await ended(await attached(workspace, 's', '', other.token)), [4403, 'error', 'forbidden'])
  stream.socket.close()
  await client.operate(`/v1/workspaces/${other.id}`, { method: 'DELETE' })
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test('a client that reads nothing costs the gateway no memory', { timeout: 180_000 }, async () => {
  const workspace = await client.open('stalled')
  const argv = ['sh', '-c', 'head -c 300M /dev/zero; echo end >&2']
  await client.tool(workspace, '/exec', { json: { session_id: 'big', argv } })
  const reader = await attached(workspace, 'big', `?stdout_offset=0`)
  await reader.next()
  const before = await service.memory_bytes('cell')
  reader.socket.pause()
  const watcher = await attached(workspace, 'big')
  let bytes = 0
  for await (const event of watcher) if (event.stream === 'stdout') bytes += Buffer.from(event.data ?? '', 'base64').length
  const grown = (await service.memory_bytes('cell')) - before
  assert.ok(grown < 64 << 20, `${grown} bytes more for ${bytes} bytes of output`)
  reader.socket.terminate()
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

test('SIGTERM of the service closes attached streams with 1001', { timeout: 180_000 }, async () => {
  const { workspace, stream } = await sleeping('drained')
  await service.restart()
  assert.deepEqual(await ended(stream), [1001, undefined, undefined])
  const again = await attached(workspace, 's', '', await client.token(workspace.id))
  assert.equal(await again.until(/\n/), 'ready\n')
  again.socket.close()
})

test('no log holds a byte of a token', { timeout: 180_000 }, async () => {
  const workspace = await client.open('drained')
  await attach(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/s/attach?token=${workspace.token}`, {
    protocols: ['berth.v1', `bearer.${workspace.token}`],
  })
  const signature = workspace.token.split('.')[2] ?? ''
  const logs = path.join(service.data_dir, 'logs')
  for (const name of readdirSync(logs)) assert.ok(!readFileSync(path.join(logs, name), 'utf8').includes(signature.slice(0, 24)), name)
})

// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { after, before, test } from 'node:test'
import { attach, type AttachEvent } from '../support/attached.ts'
import { type Client, createClient, ndjson, type OpenedWorkspace, type OutputEvent, send } from '../support/client.ts'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { history } from '../sdk/histories/history.ts'
import { openHostileProxy } from '../sdk/histories/hostile-proxy.ts'
import { type CuttingProxy, openCuttingProxy } from '../support/cutting-proxy.ts'
import { depth } from '../support/depth.ts'
import { until } from '../support/processes.ts'
import { testSeed } from '../support/seed.ts'
import { type Service, startService } from '../support/service.ts'
import { sharedRestarts } from '../support/shared-restarts.ts'
import { patience } from '../support/patience.ts'

let service: Service
let client: Client
before(async () => {
  service = await startService({ settings: { slots: 2, memory_overcommit: 4, disk_overcommit: 50 } })
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const LINES = 40_000
const GATHER_MS = 180_000
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
const toolUrl = (workspace: OpenedWorkspace, path: string) => `${workspace.endpoint}/v1/workspaces/${workspace.id}${path}`

type Streams = Record<string, { at: number; hash: ReturnType<typeof createHash> }>

/** Hashes a session's output over all its connections. Each byte must arrive once, at its offset. */
async function gather(
  names: string[],
  connected: (streams: Streams, token: string) => Promise<AsyncIterable<AttachEvent>>,
  workspace: OpenedWorkspace,
  seen: (bytes: number) => void,
) {
  const streams: Streams = Object.fromEntries(names.map((name) => [name, { at: 0, hash: createHash('sha256') }]))
  let token = workspace.token
  const reasons = new Set<string>()
  for (const deadline_ms = performance.now() + patience(GATHER_MS); performance.now() < deadline_ms;) {
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
    await pause(20) // as a client does before it connects again
  }
  throw new Error(`the session did not end: ${[...reasons].join(', ')}`)
}

/**
 * Kills the gateway when the first follower has read each share in `kills`, and suspends each workspace in mid-stream, one after another.
 */
function openTroubles() {
  const kills = [0.15, 0.7]
  let last: Promise<unknown> = Promise.resolve()
  let suspends = 0
  const then = (happen: () => Promise<unknown>) => void (last = last.then(happen))
  const seenOf = ({ id }: OpenedWorkspace, bytes: number) => {
    let is_over = false
    return (at: number) => {
      const [kill_at] = kills
      if (kill_at !== undefined && at >= bytes * kill_at) {
        kills.shift()
        then(() => service.kill9('cell').then(() => service.ready()))
      }
      if (is_over || at < bytes * 0.4) return
      is_over = true
      then(async () => {
        for (const verb of ['suspend', 'resume']) {
          const { state } = await client.operate(`/v1/workspaces/${id}/${verb}`)
          assert.equal(state, 'succeeded')
        }
        suspends += 1
      })
    }
  }
  const over = async () => {
    await last
    assert.deepEqual([kills, suspends], [[], KINDS.length])
  }
  return { seenOf, over }
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

test(`whoever is ${KINDS.map(({ name }) => name).join(', or ')} loses no byte and gets none twice: cut connections, killed gateways, suspend and resume`, async (t) => {
  const troubles = openTroubles()
  const followed = await Promise.all(
    KINDS.map(async ({ name, begin, streams, connected }, index) => {
      const workspace = await client.open(`exact-${index}`, { caps: { memory_mib: 512 } })
      const proxy = await openCuttingProxy(workspace.endpoint, { bytes_max: 40_000 })
      return { name, begin, streams, connected, workspace, proxy }
    }),
  )
  await Promise.all(
    followed.map(async ({ name, begin, streams, connected, workspace, proxy }) => {
      await begin(workspace)
      const [first = ''] = Object.values(streams)
      const seen = troubles.seenOf(workspace, first.length)
      const got = await gather(Object.keys(streams), connected(proxy, workspace.id), workspace, seen)
      for (const [stream, text] of Object.entries(streams)) {
        assert.deepEqual(
          [name, stream, got.streams[stream]?.at, got.streams[stream]?.hash.digest('hex')],
          [name, stream, text.length, digest(text)],
          `seed ${proxy.seed}`,
        )
      }
      assert.ok(proxy.cuts() > 10, `only ${proxy.cuts()} cuts`)
      t.diagnostic(`${name}: BERTH_TEST_SEED=${proxy.seed}, ${proxy.cuts()} cuts; ${[...got.reasons].join(', ')}`)
      assert.equal(got.exit['exit_code'], 0)
      proxy.close()
    }),
  )
  await troubles.over()
  await Promise.all(followed.map(({ workspace }) => client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })))
})

test('a restart ends streams with draining and attached ones with 1001, and the same offsets continue without a lost or doubled byte', async () => {
  const workspace = await client.open('drained')
  const output = (offset: number) => send(toolUrl(workspace, `/exec/counts/output?stdout_offset=${offset}`), { token: workspace.token })
  const counts = 'until [ -e stop ]; do echo line $((++i)); sleep 0.005; done; echo end $i'
  await client.tool(workspace, '/exec', { json: { session_id: 'counts', argv: ['bash', '-c', counts] } })
  await client.tool(workspace, '/exec', { json: { session_id: 'sleeps', argv: ['sh', '-c', 'echo ready; exec sleep 1000'] } })
  const attached = () => attach(toolUrl(workspace, '/exec/sleeps/attach'), { token: workspace.token })
  const stream = await attached()
  await stream.until(/ready/)
  const first: OutputEvent[] = []
  const events = ndjson(await output(0))
  first.push((await events.next()).value as OutputEvent)
  const restarted = service.restart()
  for await (const event of events) first.push(event)
  const end = first.at(-1) as unknown as { type: string; error: { code: string; retryable: boolean; details: object } }
  assert.deepEqual(
    [end.type, end.error.code, end.error.retryable, end.error.details],
    ['error', 'service_unavailable', true, { reason: 'draining' }],
  )
  assert.deepEqual([await stream.rest(), (await stream.closed).code], [[], 1001])
  await restarted
  workspace.token = await client.token(workspace.id)
  const again = await attached()
  assert.equal(await again.until(/\n/), 'ready\n')
  again.socket.close()
  const had = bytesOf(first)
  const rest: OutputEvent[] = []
  const goes_on = Promise.withResolvers<void>()
  const following = (async () => {
    for await (const event of ndjson(await output(had.length))) {
      rest.push(event)
      if (event.type === 'output') goes_on.resolve()
    }
  })()
  await Promise.race([goes_on.promise, following])
  await client.run(workspace, ['touch', 'stop'])
  await following
  assert.equal(rest.at(-1)?.type, 'exit')
  const whole = Buffer.concat([had, bytesOf(rest)]).toString()
  const count = Number(/^end (\d+)\n$/m.exec(whole)?.[1])
  assert.ok(had.length > 0 && bytesOf(rest).length > 0, `${had.length} bytes before, then ${rest.length} events`)
  assert.equal(whole, `${Array.from({ length: count }, (_, at) => `line ${at + 1}\n`).join('')}end ${count}\n`)
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})
const bytesOf = (events: OutputEvent[]) =>
  Buffer.concat(events.filter(({ stream }) => stream === 'stdout').map(({ data }) => Buffer.from(data ?? '', 'base64')))

test('an idempotency key replays after a kill of the gateway and after a suspend', async () => {
  let workspace = await client.open('keys')
  const append = (name: string, text: string) =>
    client.tool(workspace, `/files?path=/home/user/${name}&append=true`, {
      method: 'PUT',
      bytes: Buffer.from(text),
      headers: { 'idempotency-key': name },
    })
  const text = async (name: string) => (await client.tool(workspace, `/files?path=/home/user/${name}`)).bytes.toString()
  const first = await append('kept', '+')
  // The gateway is killed before it can answer this append.
  const lost = append('lost', '+'.repeat(1 << 20)).catch(() => null)
  await service.kill9('cell')
  await lost
  await service.ready()
  workspace = { ...workspace, token: await client.token(workspace.id) }
  assert.deepEqual((await append('kept', '+')).body, first.body)
  assert.equal((await append('lost', '+'.repeat(1 << 20))).status, 200)
  assert.equal((await text('lost')).length, 1 << 20)
  await client.operate(`/v1/workspaces/${workspace.id}/suspend`)
  workspace = await client.open('keys')
  assert.deepEqual((await append('kept', '+')).body, first.body)
  assert.equal(await text('kept'), '+')
  await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })
})

const FIRST = testSeed()
const HISTORIES = depth({ short: 2, long: 40 })

async function restartOne(name: 'api' | 'cell', how: 'kill' | 'stop'): Promise<void> {
  const pid = service.pid(name)
  if (how === 'kill') await service.kill9(name)
  else process.kill(pid, 'SIGTERM')
  await until(`another ${name} is there`, GATHER_MS, () => service.pid(name) !== pid)
  await service.ready()
}

test(
  `in ${HISTORIES} histories of a bad network, suspends, forks and restarts, the SDK runs every command once and sees every byte once`,
  { timeout: depth({ short: 240_000, long: 3_600_000 }) },
  async () => {
    const { base_url, cell_endpoint, api_key: apiKey } = service
    const upstream = { api: () => base_url, cell: () => cell_endpoint, endpoint: cell_endpoint }
    using proxy = await openHostileProxy(upstream, () => Promise.resolve())
    const other = new Berth({ url: base_url, apiKey })
    const { restart } = sharedRestarts(restartOne)
    const waiting = Array.from({ length: HISTORIES }, (_, at) => FIRST + at)
    const one = async () => {
      for (let seed = waiting.shift(); seed !== undefined; seed = waiting.shift()) {
        const berth = new Berth({ url: proxy.of(seed), apiKey })
        const key = `history-${seed}`
        await history(seed, { berth, other, restart, key }).catch((cause: unknown) => {
          throw new Error(`seed ${seed}: BERTH_TEST_SEED=${seed}`, { cause })
        })
        for (const ws of await other.workspaces({ key_prefix: key }).all()) await (await other.workspace(ws.id)).delete()
      }
    }
    await Promise.all([one(), one()])
  },
)

/** Much more than a slow reader reads, and more than the memory may grow. */
const PRINTED_BYTES = 96 << 20
const GROWN_BYTES_MAX = 64 << 20

test('endless output for readers of 1 KiB a second or nothing grows neither gateway nor hostd, and delays no other caller', async () => {
  const workspace = await client.open('prints')
  const status = async () => (await client.tool<{ stdout_bytes: number }>(workspace, '/exec/yes')).body.stdout_bytes
  const memory = async () => (await service.memory_bytes('cell')) + (await service.memory_bytes('hostd'))
  await client.tool(workspace, '/exec', { json: { session_id: 'yes', argv: ['yes'] } })
  const readers = await Promise.all(
    Array.from({ length: 10 }, () => send(toolUrl(workspace, '/exec/yes/output'), { token: workspace.token })),
  )
  const attached = await Promise.all(
    Array.from({ length: 5 }, () => attach(toolUrl(workspace, '/exec/yes/attach?stdout_offset=0'), { token: workspace.token })),
  )
  for (const reader of readers) reader.pause()
  for (const { socket } of attached) socket.pause()
  const before = await memory()
  let most = before
  let end = 0
  const began_ms = performance.now()
  while (performance.now() < began_ms + 5000 || (end <= PRINTED_BYTES && performance.now() < began_ms + 120_000)) {
    for (const reader of readers) reader.read(1024)
    const stdout_bytes = await status()
    assert.ok(stdout_bytes >= end)
    end = stdout_bytes
    assert.equal((await client.run(workspace, ['echo', 'here'])).stdout, 'here\n')
    most = Math.max(most, await memory())
    await pause(1000)
  }
  for (const reader of readers) reader.destroy()
  for (const { socket } of attached) socket.terminate()
  assert.equal((await client.tool(workspace, '/exec/yes/cancel', { method: 'POST', json: {} })).status, 200)
  assert.ok(end > PRINTED_BYTES, `${end} bytes were printed`)
  assert.ok(most - before < GROWN_BYTES_MAX, `grew by ${most - before} bytes`)
})

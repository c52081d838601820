// Needs its own installation: the tests kill its processes.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { openSpareShare } from '../../service/cell/reconcile/spare-share.ts'
import { createClient, ndjson, refusalOf, send, type Client, type OpenedWorkspace, type OutputEvent } from '../support/client.ts'
import { startService, type Service } from '../support/service.ts'

// Requirement: the workspace fails within 10 s, its streams end with an error, and the next open starts from the current disk.
const SEEN_MS = 10_000
/** A failed probe counts only while the computer has spare processors. */
const SEEN_WORKING_MS = 20_000
/** Longest limit: on a busy computer a silent agent may only be slow. */
const SEEN_BUSY_MS = 120_000
const SPARE_SHARE_MIN = 0.25
/** Frequent enough to be exact, and rare enough not to use up the processors. */
const ASK_EVERY_MS = 250
const WORKS = 'while echo x; do sleep 0.1; done'
const STANDS_STILL = 'echo x; exec sleep 1000'
const small = { caps: { memory_mib: 512 } }
let service: Service
let client: Client

before(async () => {
  service = await startService({ settings: { slot_memory_mib: 512, memory_overcommit: 4, disk_overcommit: 50 } })
  client = createClient(service.base_url, service.api_key)
})
after(async () => {
  await service.stop()
})

const stateOf = async (id: string) => (await client.api<{ observed_state: string }>(`/v1/workspaces/${id}`)).body.observed_state

async function pidsOf(workspace_id: string, program: string): Promise<number[]> {
  const { sandbox } = await service.machine(workspace_id)
  const { stdout } = await promisify(execFile)('pgrep', ['--full', `^${program} .*${sandbox}( |$)`])
  return stdout.trim().split('\n').map(Number)
}

async function living(key: string, script = WORKS): Promise<{ workspace: OpenedWorkspace; ended: Promise<OutputEvent[]> }> {
  const workspace = await client.open(key, small)
  const write = async (text: string) => {
    const { body } = await client.tool(workspace, '/files?path=/home/user/kept', { method: 'PUT', bytes: Buffer.from(text) })
    assert.equal(body['durable'], true)
  }
  await write('older')
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}/snapshot`)).state, 'succeeded')
  await write('current')
  await client.tool(workspace, '/exec', { json: { session_id: 'prints', argv: ['bash', '-c', script] } })
  const response = await send(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/prints/output`, { token: workspace.token })
  assert.equal(response.statusCode, 200)
  return { workspace, ended: all(response) }
}

async function all(response: AsyncIterable<Buffer>): Promise<OutputEvent[]> {
  const events: OutputEvent[] = []
  for await (const event of ndjson(response)) events.push(event)
  return events
}

function within<T>(limit_ms: number, work: Promise<T>): Promise<T> {
  const late = new Promise<never>((_, reject) => setTimeout(() => reject(new Error(`Not within ${limit_ms} ms`)), limit_ms).unref())
  return Promise.race([work, late])
}

async function fails(id: string, began_ms: number, seen_ms: number, is_silence: boolean): Promise<void> {
  const spareShare = openSpareShare()
  const failed = async () => (await stateOf(id)) === 'failed'
  while (!(await failed()) && performance.now() - began_ms < SEEN_BUSY_MS) await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS))
  const [took_ms, spare_share] = [performance.now() - began_ms, spareShare()]
  const in_time = took_ms < seen_ms || (is_silence && took_ms < SEEN_BUSY_MS && spare_share < 2 * SPARE_SHARE_MIN)
  assert.ok(in_time, `failed after ${took_ms} ms, with ${spare_share} of the processors to spare`)
}

async function failsAndStartsAgain(
  { workspace, ended }: Awaited<ReturnType<typeof living>>,
  key: string,
  began_ms: number,
  { seen_ms = SEEN_MS, is_silence = false } = {},
): Promise<void> {
  await fails(workspace.id, began_ms, seen_ms, is_silence)
  const events = await within(seen_ms, ended)
  const last = events.at(-1)
  assert.equal(last?.type, 'error', JSON.stringify(last))
  const refused = await client.tool(workspace, '/exec', { json: { argv: ['true'] } })
  assert.deepEqual(refusalOf(refused).slice(0, 2), [409, 'workspace_not_running'])
  const again = await client.open(key, small)
  assert.equal(again.id, workspace.id)
  assert.equal((await client.run(again, ['cat', '/home/user/kept'])).stdout, 'current')
  assert.equal((await service.inventory()).machines.filter(({ subject }) => subject.id === workspace.id).length, 1)
  assert.equal((await client.operate(`/v1/workspaces/${workspace.id}`, { method: 'DELETE' })).state, 'succeeded')
}

interface Death {
  /** Label of berth_machine_deaths_total. */
  reason: 'killed' | 'hung' | 'out_of_memory'
  kill: (workspace: OpenedWorkspace) => Promise<void>
  script?: string
  seen_ms?: number
}

const deathsOf = async (reason: Death['reason']) => (await service.metrics('cell')).get(`berth_machine_deaths_total{reason="${reason}"}`)

async function die(kind: string, { kill, script, seen_ms = SEEN_MS, reason }: Death): Promise<void> {
  const key = kind.replaceAll(/[^a-z]+/g, '-')
  const alive = await living(key, script)
  await kill(alive.workspace)
  await failsAndStartsAgain(alive, key, performance.now(), { seen_ms, is_silence: reason === 'hung' })
}

const titleOf = (kind: string, { seen_ms = SEEN_MS }: Death) =>
  `${kind}: failed within ${seen_ms / 1000} s, streams end with an error, the next open has the current disk`

function died(kind: string, death: Death): void {
  test(titleOf(kind, death), async () => {
    const before = await deathsOf(death.reason)
    assert.notEqual(before, undefined)
    await die(kind, death)
    assert.equal(await deathsOf(death.reason), (before ?? 0) + 1, death.reason)
  })
}

const signal = (program: string, name: NodeJS.Signals) => async (workspace: OpenedWorkspace) => {
  for (const pid of await pidsOf(workspace.id, program)) process.kill(pid, name)
}

/** The engine signals the agent: no guest process can signal the guest's first process. */
const signalAgent = (name: 'KILL' | 'STOP') => async (workspace: OpenedWorkspace) => {
  const { sandbox, runsc_root } = await service.machine(workspace.id)
  await promisify(execFile)(service.runsc, ['--root', runsc_root, 'kill', sandbox, name])
}

/** The limit is far below the guest's own memory size, so that its agent kills no process first. */
async function outgrow(workspace: OpenedWorkspace): Promise<void> {
  const machine = (await service.inventory()).machines.find(({ subject }) => subject.id === workspace.id)
  const folder = path.dirname(machine?.freezer_file ?? '')
  const limit = machine?.freezer_file?.endsWith('cgroup.freeze')
    ? path.join(folder, 'memory.max')
    : path.join(folder.replace('/freezer/', '/memory/'), 'memory.limit_in_bytes')
  writeFileSync(limit, '120000000')
  await client.tool(workspace, '/exec', { json: { argv: ['bash', '-c', 'head -c 300M /dev/zero >/dev/shm/much'] } })
}

died('kill -9 of the sandbox', { reason: 'killed', kill: signal('runsc-sandbox', 'SIGKILL') })
died('kill -9 of the gofer', { reason: 'killed', kill: signal('runsc-gofer', 'SIGKILL') })
died('kill -9 of the agent', { reason: 'killed', kill: signalAgent('KILL') })
died('a sandbox past its memory', { reason: 'out_of_memory', kill: outgrow })

// These deaths run concurrently, because each waits for probes that come every few seconds.
const HANGS: Record<string, Death> = {
  'a sandbox that hangs': { reason: 'hung', kill: signal('runsc-sandbox', 'SIGSTOP') },
  'an agent that hangs in a guest that stands still': { reason: 'hung', kill: signalAgent('STOP'), script: STANDS_STILL },
  'an agent that hangs in a guest that works': { reason: 'hung', kill: signalAgent('STOP'), seen_ms: SEEN_WORKING_MS },
}
describe('side by side', { concurrency: 3 }, () => {
  for (const [kind, death] of Object.entries(HANGS)) test(titleOf(kind, death), () => die(kind, death))
})
test('each of these machines is counted as hung', async () => {
  assert.equal(await deathsOf('hung'), Object.keys(HANGS).length)
})

test('if root of the guest kills its first process, its commands end and the workspace still serves', async () => {
  const { workspace, ended } = await living('suicide')
  await client.tool(workspace, '/exec', { json: { argv: ['bash', '-c', 'kill -9 1; kill -SEGV 1; kill -STOP 1'], user: 'root' } })
  const events = await within(SEEN_WORKING_MS, ended)
  assert.ok(['exit', 'error'].includes(events.at(-1)?.type ?? ''), JSON.stringify(events.at(-1)))
  const again = await client.open('suicide', small)
  assert.equal((await client.run(again, ['cat', '/home/user/kept'])).stdout, 'current')
})

test('the death of a machine while hostd is down is detected when hostd is back', async () => {
  const alive = await living('unseen')
  const [sandbox] = await pidsOf(alive.workspace.id, 'runsc-sandbox')
  await service.kill9('hostd')
  const began_ms = performance.now()
  process.kill(sandbox ?? 0, 'SIGKILL')
  await failsAndStartsAgain(alive, 'unseen', began_ms)
})

test('after a loss of every process and machine, running workspaces are failed and suspended ones resume with their memory', async () => {
  const running = await living('lost')
  running.ended.catch(() => undefined) // this stream breaks when its gateway is killed
  const asleep = await client.open('asleep', small)
  await client.run(asleep, ['bash', '-c', 'echo memory > /dev/shm/canary'])
  assert.equal((await client.operate(`/v1/workspaces/${asleep.id}/suspend`)).state, 'succeeded')
  const [sandbox] = await pidsOf(running.workspace.id, 'runsc-sandbox')
  for (const child of ['supervisor', 'cell', 'api', 'hostd', 'postgres'] as const) await service.kill9(child).catch(() => undefined) // the child may have ended together with another one
  process.kill(sandbox ?? 0, 'SIGKILL')
  await service.ready()
  const began_ms = performance.now()
  await failsAndStartsAgain({ ...running, ended: Promise.resolve([{ type: 'error' }]) }, 'lost', began_ms)
  const awake = await client.open('asleep', small)
  assert.equal((await client.run(awake, ['cat', '/dev/shm/canary'])).stdout, 'memory\n')
})

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Process } from '../../contract/schemas/cell/process.ts'
import { type Client, createClient, ndjson, type OpenedWorkspace, refusalOf, send } from '../support/client.ts'
import { until } from '../support/processes.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

let service: SharedService
let client: Client
let workspace: OpenedWorkspace

before(async () => {
  service = await sharedService()
  client = createClient(service.base_url, service.api_key)
  workspace = await client.open('processes')
})
after(() => service.stop())

interface List {
  processes: Process[]
  truncated: boolean
}
const list = async (query = '') => (await client.tool<List>(workspace, `/processes${query}`)).body
/** Polls: a forked process has another name until it executes its program. */
async function listed(what: string, fits: (processes: Process[]) => boolean): Promise<List> {
  let seen = await list()
  await until(what, 60_000, async () => fits((seen = await list()).processes)).catch((cause: unknown) => {
    throw new Error(JSON.stringify(seen.processes), { cause })
  })
  return seen
}
const has = (processes: Process[], ...words: string[]) => words.every((word) => processes.some(({ command }) => command.at(-1) === word))
const signal = (pid: number | string, name: string) => client.tool(workspace, `/processes/${pid}/signal`, { json: { signal: name } })
const find = (processes: Process[], word: string) => {
  const found = processes.filter(({ command }) => command.includes(word))
  assert.equal(found.length, 1, `${word} in ${JSON.stringify(processes)}`)
  return found[0] as Process
}

async function started(session_id: string, argv: string[], body: Record<string, unknown> = {}): Promise<void> {
  await client.tool(workspace, '/exec', { json: { session_id, argv, ...body } })
  const response = await send(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/${session_id}/output`, { token: workspace.token })
  for await (const event of ndjson(response)) if (event.type === 'output') break
}
const ended = async (session_id: string) => {
  const response = await send(`${workspace.endpoint}/v1/workspaces/${workspace.id}/exec/${session_id}/output`, { token: workspace.token })
  for await (const event of ndjson(response)) if (event.type === 'exit') return event
  throw new Error('no exit')
}

test('a list has the program, user and command of each process', async () => {
  const script = 'sleep 1001 & (setsid sleep 1002 & wait) & (sleep 1003 &) ; sudo sleep 1004 & echo ready; wait'
  const before = Date.now()
  await started('tree', ['bash', '-c', script])
  const { processes, truncated } = await listed('everything sleeps', (all) => {
    const asleep = all.filter(({ command, state }) => command[0] === 'sleep' && state === 'sleeping')
    return (
      has(asleep, '1001', '1002', '1003', '1004') &&
      all.find(({ ppid, session_id }) => ppid === 0 && session_id === 'tree')?.state === 'sleeping'
    )
  })
  assert.equal(truncated, false)
  const shell = processes.find(({ ppid, session_id }) => ppid === 0 && session_id === 'tree')
  assert.ok(shell)
  const record = (await client.tool<{ pid: number }>(workspace, '/exec/tree')).body
  assert.deepEqual(
    { ...shell, threads: 1, cpu_ms: 0, memory_bytes: 0, started_at: '' },
    {
      pid: record.pid,
      ppid: 0,
      user: 'user',
      name: 'bash',
      command: ['bash', '-c', script],
      command_truncated: false,
      state: 'sleeping',
      threads: 1,
      cpu_ms: 0,
      memory_bytes: 0,
      started_at: '',
      session_id: 'tree',
    },
  )
  assert.ok(shell.memory_bytes > 100_000 && shell.memory_bytes < 64 << 20)
  assert.ok(Math.abs(Date.parse(shell.started_at) - before) < 120_000, shell.started_at)
  // A process that left the session by setsid, and one whose parent has ended, also belong to the command.
  for (const word of ['1001', '1002', '1003']) assert.equal(find(processes, word).session_id, 'tree')
  assert.equal(find(processes, '1001').ppid, shell.pid)
  assert.equal(processes.filter(({ command, user }) => command.includes('1004') && user === 'root').length, 2) // sudo and its sleep
  assert.ok(processes.every(({ pid }) => pid > 1))
  assert.deepEqual(
    processes.map(({ pid }) => pid),
    processes.map(({ pid }) => pid).toSorted((a, b) => a - b),
  )
})

test('a process of a terminal belongs to the terminal', async () => {
  const { status } = await client.tool(workspace, '/pty', { json: { session_id: 'shown', argv: ['sleep', '987'] } })
  assert.equal(status, 201)
  assert.equal(find((await list()).processes, '987').session_id, 'shown')
  await client.tool(workspace, '/pty/shown', { method: 'DELETE' })
})

test('a list with limit 1 is marked as truncated', async () => {
  const { processes, truncated } = await list('?limit=1')
  assert.deepEqual([processes.length, truncated], [1, true])
  const refused = await client.tool<{ error: { code: string } }>(workspace, '/processes?limit=0')
  assert.deepEqual([refused.status, refused.body.error.code], [400, 'bad_request'])
})

test('a signal reaches one process of any user', async () => {
  const { processes } = await list()
  assert.equal((await signal(find(processes, '1001').pid, 'SIGSTOP')).status, 204)
  const { processes: then } = await listed('it is stopped', (all) => find(all, '1001').state === 'stopped')
  const stopped = find(then, '1001')
  assert.equal((await signal(stopped.pid, 'SIGKILL')).status, 204)
  const of_root = processes.find(({ command }) => command[0] === 'sleep' && command.includes('1004'))
  assert.ok(of_root)
  assert.equal((await signal(of_root.pid, 'SIGTERM')).status, 204)
  const shell = processes.find(({ ppid, session_id }) => ppid === 0 && session_id === 'tree')
  assert.ok(shell)
  assert.equal((await signal(shell.pid, 'SIGTERM')).status, 204)
  assert.equal((await ended('tree'))['term_signal'], 'SIGTERM')
  assert.deepEqual(refusalOf(await signal(shell.pid, 'SIGTERM')), [404, 'not_found', 'process_not_found'])
})

test('an unknown process or signal is refused, and the first process cannot be signalled', async () => {
  for (const name of ['TERMINATE', 'SIGNOTHING', '', '15', 'SIGRTMIN'])
    assert.deepEqual(refusalOf(await signal(1, name)), [422, 'validation_failed', undefined])
  for (const pid of [1, 999_999, 2147483647, 9999999999])
    assert.deepEqual(refusalOf(await signal(pid, 'SIGKILL')), [404, 'not_found', 'process_not_found'])
  for (const pid of ['0', '-1', 'self', '01', '1%2F2', '99999999999'])
    assert.deepEqual(refusalOf(await signal(pid, 'SIGKILL')), [400, 'bad_request', undefined])
  assert.equal((await client.run(workspace, ['echo', 'well'])).stdout, 'well\n')
})

test('hostile command lines are listed as bounded text', async () => {
  const program = `
import os
nap = 'import time; time.sleep(600)'
if os.fork() == 0: os.execv('/usr/bin/python3', ['python3', '-c', nap, '2001'] + ['x' * 100000] * 10)
if os.fork() == 0: os.execv('/bin/sleep', [b'big\\x1b[2J\\r\\n\\xff\\xfe\\xed\\xa0\\x80', b'2002'])
if os.fork() == 0:
  import ctypes
  ctypes.CDLL(None).prctl(15, b') R 0 0 (', 0, 0, 0)
  import time; time.sleep(600)
import time; print('ready', flush=True); time.sleep(600)`
  await started('hostile', ['python3', '-c', program])
  const NAME = ') R 0 0 ('
  const runs = (all: Process[], word: string) => all.some(({ command }) => command.includes(word))
  const three = (all: Process[]) => runs(all, '2001') && runs(all, '2002') && all.some(({ name }) => name === NAME)
  const { processes } = await listed('all three are what they want to be', three)
  const big = find(processes, '2001')
  assert.equal(big.command_truncated, true)
  assert.equal(big.command.join(' ').length, 4096)
  const control = find(processes, '2002')
  assert.match(control.command[0] ?? '', /^big\u001b\[2J\r\n\uFFFD+$/)
  const liar = processes.find(({ name }) => name === NAME)
  assert.equal(liar?.session_id, 'hostile')
  await client.tool(workspace, '/exec/hostile/cancel', { method: 'POST' })
})

test('a guest that mounts over /proc loses only the list', async () => {
  const own = await client.open('no-proc')
  await client.run(own, ['sudo', 'mount', '-t', 'tmpfs', 'none', '/proc'])
  const { status, body } = await client.tool<{ error: { code: string; details: object } }>(own, '/processes')
  assert.deepEqual(
    [status, body.error.code, body.error.details],
    [409, 'conflict', { reason: 'guest_feature_unavailable', feature: 'proc' }],
  )
  assert.equal((await client.run(own, ['echo', 'well'])).stdout, 'well\n')
})

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Berth, type Workspace } from '../../sdk/typescript/src/main.ts'
import { runBerth } from '../cli/served.ts'
import { NO_PYTHON, PYTHON_PACKAGES } from '../support/client-guides.ts'
import { createClient, type Client } from '../support/client.ts'
import { sharedService, type SharedService } from '../support/shared-services.ts'

const PYTHON = path.resolve(import.meta.dirname, '../../sdk/python')
const TIMEOUT = { timeout: 240_000 }
const LONG = ['sh', '-c', 'echo begun; exec sleep 600']

let service: SharedService
let berth: Berth
let client: Client
before(async () => {
  service = await sharedService()
  berth = new Berth({ url: service.base_url, apiKey: service.api_key })
  client = createClient(service.base_url, service.api_key)
})
after(() => service.stop())

const running = async (ws: Workspace) => (await ws.commands({ state: 'running' }).all()).map(({ session_id }) => session_id)

test('commands and terminals are found in lists, also after a suspend and in a fork', TIMEOUT, async () => {
  const ws = await berth.open('command-lists', { template: 'base' })
  const failed = await ws.exec(['sh', '-c', 'exit 3'], { env: { KEY: 'a value that is secret' } })
  const long = await ws.start(LONG, { cwd: '/tmp' })
  const shell = await ws.shell({ argv: ['cat'] })
  const all = await ws.commands().all()
  assert.deepEqual(all.map(({ session_id, state, exit_code }) => [session_id, state, exit_code]), [[long.id, 'running', null], [failed.id, 'exited', 3]]) // prettier-ignore
  assert.deepEqual([all[0]?.argv, all[0]?.cwd, all[0]?.argv_truncated], [LONG, '/tmp', false])
  assert.ok(!JSON.stringify(all).includes('secret'))
  await ws.suspend()
  assert.deepEqual(await running(ws), [long.id])
  assert.deepEqual((await ws.terminals({ state: 'running' }).all()).map(({ session_id }) => session_id), [shell.id]) // prettier-ignore
  const fork = await ws.fork('command-lists-fork')
  assert.deepEqual((await fork.commands().all()).map(({ session_id }) => session_id), [long.id, failed.id]) // prettier-ignore
  await fork.command(long.id).cancel()
  await fork.command(long.id).result()
  assert.deepEqual([await running(fork), await running(ws)], [[], [long.id]])
  const [ended] = (await fork.commands({ state: 'ended' }).page()).data
  assert.deepEqual([ended?.session_id, ended?.exit_code, ended?.term_signal], [long.id, -1, 'SIGTERM'])
  await long.cancel()
  await shell.close()
  await fork.delete()
})

test('each page of a list continues where the page before ended, although commands are started in between', TIMEOUT, async () => {
  const ws = await berth.open('command-pages', { template: 'base' })
  const ids: string[] = []
  for (let at = 0; at < 70; at += 1) ids.unshift((await ws.exec(['true'])).id) // more than the agent keeps in memory
  const list = ws.commands({ limit: 30 })
  const first = await list.page()
  await ws.exec(['true'])
  const second = await list.page(first.next_cursor ?? '')
  const third = await list.page(second.next_cursor ?? '')
  assert.deepEqual([...first.data, ...second.data, ...third.data].map(({ session_id }) => session_id), ids) // prettier-ignore
  assert.equal(third.next_cursor, null)
})

test('commands of a file-first workspace are listed with their requests', TIMEOUT, async () => {
  const ws = await berth.open('execution-list', { template: 'base', mode: 'file_first' })
  const { id } = await ws.exec(['sh', '-c', 'echo x > file'])
  const [execution] = await ws.executions().all()
  assert.deepEqual(
    [execution?.execution_id, execution?.argv, execution?.cwd, execution?.state, execution?.tree_revision],
    [id, ['sh', '-c', 'echo x > file'], '/home/user', 'succeeded', 1],
  )
  await assert.rejects(ws.commands().all(), { reason: 'not_supported_for_mode' })
  await ws.delete()
})

test('other commands of the command line accept the ids that it lists', TIMEOUT, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'berth-command-lists-'))
  const env = { BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key, BERTH_CONFIG_DIR: folder }
  const ran = async (...words: string[]) => {
    const { code, stdout, stderr } = await runBerth(words, { env })
    assert.equal(code, 0, `berth ${words.join(' ')}: ${stderr}`)
    return stdout
  }
  try {
    await ran('open', 'cli-lists')
    await ran('exec', 'cli-lists', '--detach', '--', ...LONG)
    const [head = '', row = ''] = (await ran('commands', 'cli-lists', '--state', 'running')).split('\n')
    assert.deepEqual(head.split(/ {2,}/).slice(0, 2), ['ID', 'STATE'])
    const [id = ''] = row.split(/ {2,}/)
    assert.equal(await ran('logs', 'cli-lists', id, '--no-follow'), 'begun\n')
    assert.match(await ran('ps', 'cli-lists'), new RegExp(` sleep +${id}$`, 'm'))
    await ran('cancel', 'cli-lists', id)
    const ws = await berth.find('cli-lists')
    const shell = await ws?.shell({ argv: ['cat'] })
    assert.match(await ran('terminals', 'cli-lists'), new RegExp(shell?.id ?? 'none'))
    await shell?.close()
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a caller that disconnects during a start or while it reads output ends no command', TIMEOUT, async () => {
  const workspace = await client.open('disconnected')
  const ws = await berth.workspace(workspace.id)
  const { hostname, port } = new URL(workspace.endpoint)
  const ask = (method: string, below: string, body?: object) => {
    const headers = { authorization: `Bearer ${workspace.token}`, ...(body ? { 'content-type': 'application/json' } : {}) }
    const asked = request({ hostname, port, method, path: `/v1/workspaces/${workspace.id}/exec${below}`, headers, agent: false })
    asked.on('error', () => undefined) // this test aborts the request
    asked.end(body === undefined ? undefined : JSON.stringify(body))
    return asked
  }
  const started: string[] = []
  for (const wait_ms of [5, 20, 60, 200]) {
    const session_id = `cut-after-${wait_ms}`
    const asked = ask('POST', '', { session_id, argv: LONG })
    await pause(wait_ms)
    asked.destroy()
    started.push(session_id)
  }
  // A request that was cut before it was sent started nothing. A repeat finds every other command.
  for (const session_id of started) assert.equal((await ws.start(LONG, { session_id })).id, session_id)
  for (const session_id of started) {
    const reading = ask('GET', `/${session_id}/output`)
    await new Promise((resolve) => reading.on('response', resolve))
    reading.destroy()
  }
  await pause(1000)
  assert.deepEqual((await running(ws)).sort(), started.sort())
  for (const session_id of started) await ws.command(session_id).cancel()
})

const PROGRAM = `
import asyncio, sys
import berth

LONG = ["sh", "-c", "echo begun; exec sleep 600"]

async def main(key):
    async with berth.AsyncBerth() as client:
        ws = await client.open(key)
        for at, seconds in enumerate([0, 0.001, 0.005, 0.02, 0.1, 1]):
            work = asyncio.create_task(ws.exec(LONG, session_id=f"exec-{at}"))
            await asyncio.sleep(seconds)
            work.cancel()
            try:
                await work
            except asyncio.CancelledError:
                pass
        command = await ws.start(LONG, session_id="started")
        work = asyncio.create_task(command.result())
        await asyncio.sleep(0.2)
        work.cancel()
        last = asyncio.create_task(ws.exec(LONG, session_id="last"))
        await asyncio.sleep(1)
        last.cancel()
        try:
            await last
        except asyncio.CancelledError:
            pass

asyncio.run(main(sys.argv[1]))
`
test(
  'a cancelled Python task cancels its exec, and a command that was only started keeps running',
  { ...TIMEOUT, skip: NO_PYTHON },
  async () => {
    const env = { PATH: process.env['PATH'] ?? '', PYTHONPATH: `${PYTHON}:${PYTHON_PACKAGES}`, PYTHONDONTWRITEBYTECODE: '1' }
    const where = { BERTH_URL: service.base_url, BERTH_API_KEY: service.api_key, BERTH_NO_VERSION_CHECK: '1' }
    await promisify(execFile)('python3', ['-c', PROGRAM, 'cancelled-tasks'], { env: { ...env, ...where } })
    const ws = await berth.find('cancelled-tasks')
    assert.ok(ws)
    const commands = await ws.commands().all()
    const left = commands.filter(({ state }) => state === 'running').map(({ session_id }) => session_id)
    assert.deepEqual(left, ['started'])
    assert.ok(commands.some(({ session_id, term_signal }) => session_id === 'last' && term_signal === 'SIGTERM'))
    await ws.command('started').cancel()
  },
)

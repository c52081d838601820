import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorOf } from '../../sdk/typescript/src/errors.ts'
import { Berth, CommandError, DeadlineError, DiskFullError, RateLimitedError } from '../../sdk/typescript/src/main.ts'
import { mayRepeat } from '../../sdk/typescript/src/retry.ts'
import { createDouble, type Program } from '../../sdk/typescript/src/testing/double.ts'
import { generatorOf } from '../support/seed.ts'
import { depth } from '../support/depth.ts'
import { methodsSuite } from './methods.ts'
import { play, sdkSuite } from './suite.ts'
import { unreliable } from './unreliable.ts'

const sh: Program = async ({ argv, stdout, stderr, files, signal }) => {
  const append = (path: string, text: string) =>
    void files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), Buffer.from(text)]))
  const cancelled = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  return play(argv[2] ?? '', { stdout, stderr, append, cancelled })
}
const double = createDouble({ programs: { sh, bash: sh } })
sdkSuite('the double', () => ({ berth: double.berth, secret: double.options.apiKey }))

// In this double, every shell script fails.
const plain = createDouble({ programs: { sh: () => 1 } })
methodsSuite('the double', () => ({ berth: plain.berth, person: null }), [
  'a directory is watched',
  'a folder goes out as a tar, and comes in',
  'a repository is looked at and committed to; one that no network reaches is not cloned',
  'processes are listed and signalled, and changes told',
  'ports are exposed, let in, and closed',
  'a file-first workspace has revisions, which are compared and restored',
  'secrets are made, read, changed, rotated, bound and erased',
  'egress is said for a project and for a workspace',
  'volumes are made, attached, detached and deleted',
  'the operator is told what a caller thinks',
  'a template is built from an upload, tried, published, listed and archived, and a build cancelled',
  'a draft is opened, captured, tried, published and discarded',
  'a workspace is saved as a template',
  'languages and packages that recipes may name are told',
  'usage, inputs, organization, projects and records are told',
  'people are invited, listed, changed and removed; keys made, changed and revoked',
])

test('the double runs commands of a file-first workspace as executions', async () => {
  const ws = await double.berth.open('tree', { template: 'base', mode: 'file_first' })
  const result = await ws.exec(['sh', '-c', 'echo x >> /home/user/marks; echo marked'])
  assert.deepEqual([result.stdout, result.ok, result.execution?.tree_revision, result.execution?.changed.length], ['marked\n', true, 1, 1])
  assert.equal((await ws.exec(['nothing'], { check: false })).state, 'failed_to_start')
  await assert.rejects(ws.exec(['nothing']), CommandError)
})

test('a command that is aborted during its start is cancelled', async () => {
  const leaving = new AbortController()
  const reason = new Error('enough')
  const { options, berth: calm } = createDouble()
  const berth = new Berth({
    ...options,
    async fetch(input, init) {
      const request = new Request(input, init)
      request.signal.throwIfAborted()
      const answer = await options.fetch(request)
      if (request.method !== 'POST' || !request.url.endsWith('/exec')) return answer
      leaving.abort(reason) // the command runs, but no answer has reported that
      throw reason
    },
  })
  const ws = await berth.open('aborted', { template: 'base' })
  await assert.rejects(ws.exec(['sleep', '600'], { session_id: 'left', signal: leaving.signal }), reason)
  const other = await calm.workspace(ws.id)
  assert.equal((await other.command('left').result()).exitCode, -1)
  const [before] = (await other.commands().page()).data
  const gone = AbortSignal.abort(reason)
  await assert.rejects(ws.exec(['sleep', '600'], { session_id: 'never', signal: gone }), reason)
  assert.deepEqual((await other.commands().page()).data[0], before)
})

test('an error whose time is over names what goes on, and says how to find it again', async () => {
  const { options, berth: calm } = createDouble()
  const there = await calm.open('deadlines', { template: 'base' })
  let is_hanging: RegExp = /^$/
  const fetch: typeof globalThis.fetch = (input, init) => {
    const { url, signal } = new Request(input, init)
    if (!is_hanging.test(url)) return options.fetch(input, init)
    return new Promise((_resolve, reject) => {
      const alive = setTimeout(() => reject(new Error('it was never aborted')), 60_000) // keeps this process alive, which the timer of a deadline does not
      signal.addEventListener('abort', () => {
        clearTimeout(alive)
        reject(new Error('it was aborted'))
      })
    })
  }
  const berth = new Berth({ ...options, fetch })
  const ws = await berth.workspace(there.id)
  const hangs = async (at: RegExp, call: () => Promise<unknown>) => {
    is_hanging = at
    const error = await call().catch((thrown: unknown) => thrown)
    is_hanging = /^$/
    assert.ok(error instanceof DeadlineError, String(error))
    const { sessionId, operationId, buildId, message } = error
    return { sessionId, operationId, buildId, message }
  }
  const none = { sessionId: null, operationId: null, buildId: null }
  const over = 'The time for this call is over; '
  const waitMs = 100
  const may_run = (id: string, noun: string) => ({
    ...none,
    sessionId: id,
    message: `${over}command ${id} may still run: ws.${noun}("${id}") finds it again`,
  })
  const command = { session_id: 'c', waitMs }
  assert.deepEqual(await hangs(/\/exec$/, () => ws.start(['true'], command)), may_run('c', 'command'))
  assert.deepEqual(await hangs(/\/exec$/, () => ws.exec(['true'], command)), may_run('c', 'command'))
  assert.deepEqual(await hangs(/\/output/, () => ws.exec(['true'], command)), may_run('c', 'command'))
  assert.deepEqual(await hangs(/\/output/, () => ws.command('c').output({ waitMs }).next()), may_run('c', 'command'))
  assert.deepEqual(await hangs(/\/pty$/, () => ws.shell({ session_id: 't', waitMs })), may_run('t', 'terminal'))
  const tree = await calm.open('deadlines-of-a-tree', { template: 'base', mode: 'file_first' })
  const execution = { execution_id: 'execution', waitMs }
  assert.deepEqual(
    await hangs(/\/exec$/, async () => (await berth.workspace(tree.id)).exec(['true'], execution)),
    may_run('execution', 'execution'),
  )
  assert.deepEqual(await hangs(/\/operations\//, () => berth.waitForOperation('o', { waitMs })), {
    ...none,
    operationId: 'o',
    message: `${over}operation o goes on: waitForOperation waits for it`,
  })
  const build = { ...none, buildId: 'b', message: `${over}build b goes on: templates.waitForBuild waits for it` }
  assert.deepEqual(await hangs(/template-builds/, () => berth.templates.waitForBuild('b', { waitMs })), build)
  assert.deepEqual(await hangs(/template-builds/, () => berth.templates.buildLog('b', { waitMs }).next()), build)
  assert.deepEqual(await hangs(/\/open$/, () => berth.open('k', { waitMs })), {
    ...none,
    message: `${over}the open of k may go on: open the same key again`,
  })
})

test('input that is written during a request is sent with the next one, in order and once', async () => {
  const sent: number[] = []
  const { options } = createDouble()
  const berth = new Berth({
    ...options,
    async fetch(input, init) {
      const request = new Request(input, init)
      if (request.url.includes('/stdin')) sent.push((await request.clone().arrayBuffer()).byteLength)
      return options.fetch(request)
    },
  })
  const ws = await berth.open('pieces', { template: 'base' })
  const command = await ws.start(['cat'], { stdin: 'first,', stdin_open: true })
  const pieces = Array.from({ length: 1000 }, (_, at) => `${at},`)
  await Promise.all([...pieces.map((piece) => command.write(piece)), command.end()])
  assert.equal((await command.result()).stdout, `first,${pieces.join('')}`)
  assert.deepEqual(sent, [2, pieces.join('').length - 2])
  const large = await ws.start(['cat'], { stdin_open: true })
  sent.length = 0
  const MIB = 1 << 20
  await Promise.all([large.write('x'), large.write(new Uint8Array(MIB - 9)), large.write(new Uint8Array(10)), large.end()])
  assert.deepEqual(sent, [1, MIB - 9, 10])
})

test('a program that finds a running command writes after what another one wrote', async () => {
  const ws = await double.berth.open('found', { template: 'base' })
  const start = () => ws.start(['cat'], { stdin: 'first,', stdin_open: true, session_id: 'found' })
  await (await start()).write('second,')
  await ws.command('found').write('third,')
  const again = await start()
  await again.write('fourth')
  await again.end()
  assert.equal((await again.result()).stdout, 'first,second,third,fourth')
})

test('after a failed write all later writes fail, since the accepted bytes are unknown', async () => {
  const ws = await double.berth.open('broken', { template: 'base' })
  const command = await ws.start(['cat'], { stdin_open: true })
  const leaving = AbortSignal.abort(new Error('enough'))
  await assert.rejects(command.write('a', { signal: leaving }), /enough/)
  await assert.rejects(command.write('b'), /enough/)
  await command.cancel()
})

const HISTORIES = depth({ short: 40, long: 1000 })
test(`over connections that fail, break off, repeat and delay, every command runs once and every byte comes once, in ${HISTORIES} histories`, async () => {
  // Concurrent, because a history mostly waits.
  const side_by_side = 50
  for (let first = 1; first <= HISTORIES; first += side_by_side)
    await Promise.all(Array.from({ length: Math.min(side_by_side, HISTORIES - first + 1) }, (_, at) => history(first + at)))
})

async function history(seed: number): Promise<void> {
  const random = generatorOf(seed)
  const runs = new Map<string, number>()
  const count: Program = ({ argv: [, name = '', bytes = '0'], stdout }) => {
    runs.set(name, (runs.get(name) ?? 0) + 1)
    for (let left = Number(bytes); left > 0; left -= 1000) stdout(`${name}${'.'.repeat(999)}`.slice(0, Math.min(left, 1000)))
    return 0
  }
  const { options, berth: calm } = createDouble({ programs: { count } })
  const berth = new Berth({ ...options, fetch: unreliable(options.fetch, random) })
  const ws = await berth.open('w', { template: 'base' })
  const other = await calm.workspace(ws.id)
  for (const name of ['a', 'b', 'c']) {
    if (random() < 0.4) await other.suspend().catch(() => undefined) // the workspace may already be suspended
    const bytes = Math.floor(random() * 20_000)
    const { stdoutBytes, ok } = await ws.exec(['count', name, String(bytes)])
    assert.deepEqual([ok, stdoutBytes.length, runs.get(name)], [true, bytes, 1], `seed ${seed}`)
    await ws.files.write('/home/user/log', name, { append: true })
  }
  assert.equal(await ws.files.readText('/home/user/log'), 'abc', `seed ${seed}`)
}

test('a full disk has its own error, and its calls are not repeated', () => {
  const limited = (reason: string) =>
    errorOf({ status: 429, code: 'rate_limited', message: '', retryable: true, request_id: 'r', details: { reason } })
  assert.ok(limited('disk_full') instanceof DiskFullError)
  assert.ok(limited('resource_limit') instanceof RateLimitedError)
  assert.deepEqual([mayRepeat(limited('disk_full'), 'read'), mayRepeat(limited('resource_limit'), 'read')], [false, true])
})

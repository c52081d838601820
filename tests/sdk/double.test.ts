import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorOf } from '../../sdk/typescript/src/errors.ts'
import { Berth, CommandError, DiskFullError, RateLimitedError } from '../../sdk/typescript/src/main.ts'
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

// No script of a shell is played for these.
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

test('what is written while a request is on its way goes with the next one, in order and once', async () => {
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

test('after a write that failed, all that follow fail: nobody knows what was taken', async () => {
  const ws = await double.berth.open('broken', { template: 'base' })
  const command = await ws.start(['cat'], { stdin_open: true })
  const leaving = AbortSignal.abort(new Error('enough'))
  await assert.rejects(command.write('a', { signal: leaving }), /enough/)
  await assert.rejects(command.write('b'), /enough/)
  await command.cancel()
})

const HISTORIES = depth({ short: 40, long: 1000 })
test(`over connections that fail, break off, repeat and delay, every command runs once and every byte comes once, in ${HISTORIES} histories`, async () => {
  // Each of them mostly waits before it tries again.
  const side_by_side = 50
  for (let first = 1; first <= HISTORIES; first += side_by_side)
    await Promise.all(Array.from({ length: Math.min(side_by_side, HISTORIES - first + 1) }, (_, at) => history(first + at)))
})

/** Commands on one workspace, which somebody else suspends meanwhile, over a network that fails a third of the time. */
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
    if (random() < 0.4) await other.suspend().catch(() => undefined) // it may be suspended already
    const bytes = Math.floor(random() * 20_000)
    const { stdoutBytes, ok } = await ws.exec(['count', name, String(bytes)])
    assert.deepEqual([ok, stdoutBytes.length, runs.get(name)], [true, bytes, 1], `seed ${seed}`)
    await ws.files.write('/home/user/log', name, { append: true })
  }
  assert.equal(await ws.files.readText('/home/user/log'), 'abc', `seed ${seed}`)
}

test('a full disk is an error of its own, and no call is repeated for it', () => {
  const limited = (reason: string) =>
    errorOf({ status: 429, code: 'rate_limited', message: '', retryable: true, request_id: 'r', details: { reason } })
  assert.ok(limited('disk_full') instanceof DiskFullError)
  assert.ok(limited('resource_limit') instanceof RateLimitedError)
  assert.deepEqual([mayRepeat(limited('disk_full'), 'read'), mayRepeat(limited('resource_limit'), 'read')], [false, true])
})

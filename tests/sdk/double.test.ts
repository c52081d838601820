import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { createDouble, type Program } from '../../sdk/typescript/src/testing/double.ts'
import { generatorOf } from '../support/seed.ts'
import { depth } from '../support/depth.ts'
import { play, sdkSuite } from './suite.ts'
import { unreliable } from './unreliable.ts'

const sh: Program = async ({ argv, stdout, stderr, files, signal }) => {
  const append = (path: string, text: string) =>
    void files.set(path, Buffer.concat([files.get(path) ?? Buffer.alloc(0), Buffer.from(text)]))
  const cancelled = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  return play(argv[2] ?? '', { stdout, stderr, append, cancelled })
}
const double = createDouble({ programs: { sh } })
sdkSuite('the double', () => ({ berth: double.berth, secret: double.options.apiKey }))

test('the double runs commands of a file-first workspace as executions', async () => {
  const ws = await double.berth.open('tree', { template: 'base', mode: 'file_first' })
  const result = await ws.exec(['sh', '-c', 'echo x >> /home/user/marks; echo marked'])
  assert.deepEqual([result.stdout, result.ok, result.execution?.tree_revision, result.execution?.changed.length], ['marked\n', true, 1, 1])
  assert.equal((await ws.exec(['nothing'])).state, 'failed_to_start')
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

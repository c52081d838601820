import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { NO_PYTHON, PYTHON_PACKAGES } from '../support/client-guides.ts'
import { depth } from '../support/depth.ts'
import { generatorOf } from '../support/seed.ts'
import { serveToOthers } from './served-double.ts'
import { unreliable } from './unreliable.ts'
import { patience } from '../support/patience.ts'

const PYTHON = path.resolve(import.meta.dirname, '../../sdk/python')
const HISTORIES = depth({ short: 6, long: 300 })
/** mypy itself checks that a cached entry is current. */
const MYPY_CACHE = path.join(process.env['BERTH_CACHE_DIR'] ?? '/var/cache/berth', 'mypy')

interface Outcome {
  name: string
  /** Empty if the test passed. */
  why: string
  seconds: number
}

test('the Python SDK passes its tests against the double of the service', { skip: NO_PYTHON, timeout: patience(600_000) }, async (t) => {
  await using calm = await serveToOthers()
  await using faulty = await serveToOthers((through) => unreliable(through, generatorOf(26)))
  const child = spawn('python3', [path.join(PYTHON, 'tests/run.py')], {
    env: {
      PATH: process.env['PATH'] ?? '',
      PYTHONPATH: PYTHON_PACKAGES,
      PYTHONDONTWRITEBYTECODE: '1',
      BERTH_NO_VERSION_CHECK: '1',
      BERTH_URL: calm.url,
      BERTH_API_KEY: calm.api_key,
      BERTH_TEST_FAULTY_URL: faulty.url,
      BERTH_TEST_HISTORIES: String(HISTORIES),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let count = 0
  for await (const line of createInterface(child.stdout)) {
    const { name, why, seconds } = JSON.parse(line) as Outcome
    count += 1
    await t.test(name, (each) => {
      each.diagnostic(`${seconds} s`)
      assert.equal(why, '')
    })
  }
  assert.ok(count > 0, 'there was no test')
})

const run = promisify(execFile)
const options = { cwd: PYTHON, env: { PATH: process.env['PATH'] ?? '', PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1' } }

test('the client for threads is generated from the one for asyncio', { timeout: patience(60_000) }, async () => {
  const { stdout } = await run('python3', ['tools/sync.py', '--check'], options).catch((error: unknown) => error as { stdout: string })
  assert.equal(stdout, '')
})

test('the Python SDK passes strict type checks', { skip: NO_PYTHON, timeout: patience(300_000) }, async () => {
  const checked = run('python3', ['-m', 'mypy', '--cache-dir', MYPY_CACHE, '--config-file', 'pyproject.toml', 'berth'], options)
  const { stdout } = await checked.catch((error: unknown) => error as { stdout: string })
  assert.match(stdout, /^Success/)
})

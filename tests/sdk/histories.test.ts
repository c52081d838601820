import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { Berth } from '../../sdk/typescript/src/main.ts'
import { NO_PYTHON, PYTHON_PACKAGES } from '../support/client-guides.ts'
import { depth } from '../support/depth.ts'
import { testSeed } from '../support/seed.ts'
import { history } from './histories/history.ts'
import { openRestartingWorld, type RestartingWorld } from './histories/world.ts'
import { patience } from '../support/patience.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const FIRST = testSeed()
const HISTORIES = Number(process.env['BERTH_TEST_HISTORIES'] ?? depth({ short: 6, long: 500 }))
const AT_ONCE = 24
/** On a busy computer a process starts in ten seconds, and about every sixth command meets a restart. */
const TIMEOUT = { timeout: patience(120_000) + HISTORIES * 5000 }
const { PATH = '' } = process.env

let w: RestartingWorld
before(async () => {
  w = await openRestartingWorld()
})
after(() => w[Symbol.asyncDispose]())

const seeds = () => Array.from({ length: HISTORIES }, (_, at) => FIRST + at)
const replay = (seed: number) => `seed ${seed}: BERTH_TEST_SEED=${seed} BERTH_TEST_HISTORIES=1 npm test -- sdk/histories`

test(
  `in ${HISTORIES} histories of a bad network, suspends, forks and restarts, TypeScript runs every command once and sees every byte once`,
  TIMEOUT,
  async (t) => {
    const { api_key: apiKey, proxy, restart } = w
    const other = new Berth({ url: proxy.of('calm'), apiKey })
    const waiting = seeds()
    const one = async () => {
      for (let seed = waiting.shift(); seed !== undefined; seed = waiting.shift()) {
        const berth = new Berth({ url: proxy.of(seed), apiKey })
        await history(seed, { berth, other, restart, key: `typescript-${seed}` }).catch((cause: unknown) => {
          throw new Error(replay(seed), { cause })
        })
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, one))
    t.diagnostic(said())
  },
)

test(`in ${HISTORIES} histories, Python does too, with asyncio and with threads`, { ...TIMEOUT, skip: NO_PYTHON }, async (t) => {
  const child = spawn('python3', [path.join(ROOT, 'sdk/python/tests/histories.py')], {
    env: {
      ...{ PATH, PYTHONPATH: PYTHON_PACKAGES, PYTHONDONTWRITEBYTECODE: '1', BERTH_NO_VERSION_CHECK: '1', BERTH_API_KEY: w.api_key },
      BERTH_TEST_URLS: w.proxy.of('calm').replace(/calm$/, ''),
      BERTH_TEST_SEEDS: JSON.stringify(seeds()),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let count = 0
  const failed: string[] = []
  for await (const line of createInterface(child.stdout)) {
    const { seed, why } = JSON.parse(line) as { seed: number; why: string }
    count += 1
    if (why !== '') failed.push(`${replay(seed)}\n${why}`)
  }
  assert.deepEqual([failed.join('\n'), count], ['', HISTORIES])
  t.diagnostic(said())
})

const said = () => [...w.restarts, ...w.proxy.faults].map(([what, times]) => `${what}: ${times}`).join(', ')
